# The commands of the README. The build itself is described in CMakeLists.txt and CMakePresets.json.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
WERROR ?= ON
# More words for cmake, such as -DCOMET_BUILD_TRAIN=ON, which makes it an error where training cannot be built.
CONFIGURE ?=
PREFIX ?= /usr/local
# Seconds that `make fuzz` runs each fuzz target; 0 only builds them.
FUZZ_SECONDS ?= 0
# clang 14 formats and checks the sources. Where it is not packaged (Debian 13), the distribution's own clang is taken.
CLANG_VERSION ?= $(shell command -v clang-14 >/dev/null && echo -14)
CLANG_FORMAT ?= clang-format$(CLANG_VERSION)
CLANG_TIDY ?= clang-tidy$(CLANG_VERSION)
with_clang = -DCMAKE_C_COMPILER=clang$(CLANG_VERSION) -DCMAKE_CXX_COMPILER=clang++$(CLANG_VERSION)

SOURCES = $(shell find include src cli python tests bench examples -name '*.[ch]' -o -name '*.cpp' 2>/dev/null)

# $(call build,PRESET,TARGETS,OPTIONS) configures quietly (stderr still shows errors, and what is left out) and builds.
build = cmake --preset $(1) -DCOMET_WERROR=$(WERROR) $(CONFIGURE) $(3) >/dev/null && cmake --build --preset $(1) --parallel $(JOBS) --target $(2)

.NOTPARALLEL:
.PHONY: all setup setup-dev setup-all demo test test-all test-dnnl3 test-torch quick dev asan tsan aarch64 fuzz format lint install package clean help

all: setup ## set up and build: build/comet and the libraries
	@$(call build,release,comet_installed)

setup: ## install missing packages (see tools/setup)
	@tools/setup

setup-dev: ## install missing packages, clang, its tools and valgrind
	@tools/setup dev

setup-all: ## install missing packages and the large ones that some tests need (PyTorch, pytest, chromium, an ARM cross compiler)
	@tools/setup all

demo: all ## train a small net raw and compressed, and compare (about four minutes)
	@if build/comet help train >/dev/null; then build/comet demo; else \
	    echo "demo: the codec alone is shown"; build/comet demo codec; fi

test: setup ## build everything and run every test; those that need a large package where it is there
	@$(call build,release,all)
	@ctest --preset release -j $(JOBS)

test-all: test setup-all test-dnnl3 test-torch ## every test, then those that need a large package, which is installed for them
	@$(call build,release,all)
	@tools/setup tensorboard >/dev/null
	@tools/setup onnx >/dev/null
	@ctest --preset release -j $(JOBS) -L large

test-dnnl3: setup ## the tests that compute with oneDNN, built with version 3.2, which is installed for them in ~/.cache
	@root=$$(tools/setup dnnl3) && cmake --preset dnnl3 -DCOMET_WERROR=$(WERROR) $(CONFIGURE) -DCOMET_DNNL_ROOT="$$root" >/dev/null
	@cmake --build --preset dnnl3 --parallel $(JOBS) --target all
	@ctest --preset dnnl3 -j $(JOBS)

test-torch: setup ## the tests of the Python packages with torch 2.15 from PyPI, which is installed for them in ~/.cache (5.5 GB)
	@$(call build,release,all)
	@root=$$(tools/setup torch) && COMET_PYTEST_PYTHON=$$root/bin/python3 ctest --preset release -j $(JOBS) -L python -E wheel

quick: setup ## build everything and run only the tests labelled quick (under a minute)
	@$(call build,release,all)
	@ctest --preset release -j $(JOBS) -L quick

dev: setup ## debug build with assertions in build-dev
	@$(call build,dev,all)

asan: setup-dev ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call build,asan-ubsan,all,$(with_clang))
	@ctest --preset asan-ubsan -j $(JOBS)

tsan: setup-dev ## every test under ThreadSanitizer
	@$(call build,tsan,all,$(with_clang))
	@ctest --preset tsan -j $(JOBS)

aarch64: setup-dev ## cross-build for 64-bit ARM and check frames and kernels under qemu
	@tools/test_aarch64

fuzz: setup-dev ## build the fuzz targets; FUZZ_SECONDS=1200 also runs each that long
	@$(call build,fuzz,all,$(with_clang))
	@cmake/run_fuzzers build-fuzz/tests tests/fuzz/corpus $(FUZZ_SECONDS)

format: setup-dev ## format the sources in place
	@$(CLANG_FORMAT) -i $(SOURCES)

lint: setup-dev ## check layers, words, format and clang-tidy
	@tools/check_layers
	@tools/check_words
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)
	@cmake --preset dev -DCOMET_WERROR=$(WERROR) $(CONFIGURE) >/dev/null
	@cmake --build --preset dev --target report_assets gpu_assets >/dev/null # headers that are generated
	@sed -n 's,^ *"file": "\($(CURDIR)/\(src\|cli\|python\)/[^"]*\)".*,\1,p' build-dev/compile_commands.json | grep -v neon | sort -u | \
	    xargs -n 1 -P $(JOBS) $(CLANG_TIDY) --quiet -p build-dev

install: all ## install to PREFIX (/usr/local); honours DESTDIR
	@cmake --install build --prefix "$(PREFIX)"

package: ## make build/*.tar.gz and, on Debian and its kin, build/*.deb
	@tools/setup package
	@$(call build,release,comet_installed)
	@rm -f build/*.deb build/*.tar.gz build/*.sha256
	@cd build && cpack >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls build/*.tar.gz; ls build/*.deb 2>/dev/null || true

clean: ## remove every build folder
	rm -rf build build-dev build-asan build-tsan build-fuzz build-aarch64 build-dnnl3

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
