"""Which module runs: hooks around the forward of each module of the model, for the names of sites."""


def watch_modules(model, sites):
    """Tells `sites` when modules begin and end. Returns handles with a method remove."""
    handles = []
    for name, module in _modules_of(model):
        handles += [module.register_forward_pre_hook(_before(sites, name)), module.register_forward_hook(_after(sites, name))]
    return handles


def _modules_of(model):
    """All modules but those within compiled ones: hooks there would break the compiled code into parts."""
    compiled = [name for name, module in model.named_modules() if hasattr(module, "_orig_mod")]
    inside = tuple(name + "._orig_mod" if name else "_orig_mod" for name in compiled)
    for name, module in model.named_modules():
        if not any(name == prefix or name.startswith(prefix + ".") for prefix in inside):
            yield name, module


def _before(sites, name):
    def before(module, inputs):
        if not name:
            sites.restart()
        sites.enter(name)

    return before


def _after(sites, name):
    def after(module, inputs, output):
        sites.leave(name)

    return after
