"""What travels: code, data, model and gpujob itself, as files named by their content."""

from gpujob.bundle.digests import bundle_digest, inputs_digest
from gpujob.bundle.packing import Packed, app_part, pack
from gpujob.bundle.selection import Remark, SelectedFile, Selection, select
from gpujob.bundle.shipping import Shipped, read, ship
from gpujob.bundle.unpacking import fetch

__all__ = [
    "Packed",
    "Remark",
    "SelectedFile",
    "Selection",
    "Shipped",
    "app_part",
    "bundle_digest",
    "fetch",
    "inputs_digest",
    "pack",
    "read",
    "select",
    "ship",
]
