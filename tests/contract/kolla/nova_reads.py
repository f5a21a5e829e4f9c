"""With OpenStack's Python: nova reads a nova.conf; prints what it understood.

Arguments: the file; as JSON the cards that it is shown, `vendor:product` to device type; as JSON flavors' extra specs;
the PCI address at which it is shown the cards.
"""

from __future__ import annotations

import json
import sys

import nova.conf
from nova import objects
from nova.pci import request, whitelist
from nova.scheduler import filters

path, cards, flavors, address = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
CONF = nova.conf.CONF
CONF(["--config-file", path], project="nova", default_config_files=[path])
objects.register_all()
wrong = []
for group in [CONF, *(CONF[name] for name in CONF._groups)]:
    for key in group:
        try:
            getattr(group, key)  # reads and checks the type
        except Exception as error:  # any of oslo's
            wrong.append(f"{key}: {error}")
assignable = whitelist.Whitelist(CONF.pci.device_spec)
takes = []
for card, device_type in cards.items():
    vendor, product = card.split(":")
    device = {"address": address, "vendor_id": vendor, "product_id": product, "dev_type": device_type}
    device |= {"label": f"label_{vendor}_{product}", "parent_addr": None, "numa_node": 0}
    if assignable.device_assignable(device):
        takes.append(card)
requests = {}
for name, specs in flavors.items():
    pci_requests = request.get_pci_requests_from_flavor(objects.Flavor(extra_specs=specs)).requests
    requests[name] = sorted(
        [r.count, r.spec[0]["vendor_id"], r.spec[0]["product_id"], r.spec[0]["dev_type"]] for r in pci_requests
    )
classes = {
    c.__name__ for c in filters.HostFilterHandler().get_matching_classes(CONF.filter_scheduler.available_filters)
}
unknown = [name for name in CONF.filter_scheduler.enabled_filters if name not in classes]
json.dump(
    {
        "wrong": wrong,
        "takes": sorted(takes),
        "requests": requests,
        "filters": CONF.filter_scheduler.enabled_filters,
        "unknown filters": unknown,
        "placement": [CONF.filter_scheduler.pci_in_placement, CONF.pci.report_in_placement],
        "dedicated": CONF.compute.cpu_dedicated_set,
        "shared": CONF.compute.cpu_shared_set,
    },
    sys.stdout,
)
