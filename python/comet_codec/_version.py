"""The version of both packages. The build refuses another one than that of include/comet/version.h."""

__version__ = "0.1.0"
