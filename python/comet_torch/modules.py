"""Which module runs: hooks around the forward of each module of the model, for the names of sites."""
import threading

from .notices import say_compiled, say_once


def watch_modules(model, sites):
    """Tells `sites` when modules begin and end. Returns handles with a method remove."""
    if hasattr(model, "_orig_mod"):
        say_compiled()
    handles, thread = [], threading.get_ident()
    for name, module in _modules_of(model):
        handles += [module.register_forward_pre_hook(_before(sites, name, thread)),
                    module.register_forward_hook(_after(sites, name, thread))]
    return handles


def _modules_of(model):
    """All modules but those within compiled ones: hooks there would break the compiled code into parts."""
    compiled = [name for name, module in model.named_modules() if hasattr(module, "_orig_mod")]
    inside = tuple(name + "._orig_mod" if name else "_orig_mod" for name in compiled)
    for name, module in model.named_modules():
        if not any(name == prefix or name.startswith(prefix + ".") for prefix in inside):
            yield name, module


def _before(sites, name, thread):
    def before(module, inputs):
        if threading.get_ident() != thread:
            say_once("thread", "the model runs in another Python thread than the one that opened compress(): PyTorch's hooks are of one "
                     "thread, so what that one saves is not compressed.")
            return
        if not name:
            sites.begin()
        sites.enter(name)

    return before


def _after(sites, name, thread):
    def after(module, inputs, output):
        if threading.get_ident() == thread:
            sites.leave(name)

    return after
