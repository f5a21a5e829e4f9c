"""With OpenStack's Python: the options that a service registers read its configuration files.

Arguments: the service, its files. Prints values that an option refuses, and keys that no option has, as JSON.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys

from oslo_config import cfg

service, files = sys.argv[1], sys.argv[2:]
configuration = cfg.ConfigOpts()
setattr(cfg.ConfigOpts, "_check_required_opts", lambda _self, _namespace=None: None)  # noqa: B010  # private; the service sets them
for entry in importlib.metadata.entry_points(group="oslo.config.opts"):
    # of the libraries, oslo.limit's own loader fails without a service
    if entry.name != "oslo.limit" and entry.name.split(".")[0] in (service, "keystonemiddleware", "oslo"):
        try:
            listed = entry.load()()
        except ImportError:
            continue  # an optional part of the service
        for group, options in listed:
            for option in options:
                if not option.name.startswith("config"):
                    try:
                        configuration.register_opt(option, group=group)
                    except cfg.DuplicateOptError:
                        continue
configuration(
    [argument for file in files for argument in ("--config-file", file)], project=service, default_config_files=[]
)
wrong, unknown, read = [], set(), 0
assert configuration._namespace is not None
for parsed in configuration._namespace._parsed:
    for section, values in parsed.items():
        place = configuration if section == "DEFAULT" else None
        for key in values:
            try:
                place = configuration if section == "DEFAULT" else configuration[section]
                place[key]
                read += 1
            except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
                unknown.add(f"{section}.{key}")
            except Exception as error:  # any of oslo's
                wrong.append(f"{section}.{key}: {error}")
json.dump({"wrong": wrong, "unknown": sorted(unknown), "read": read}, sys.stdout)
