"""Reads site files of the largest size that is accepted, each in this process under the limits that the test sets.

Run by test_fuzz.py with a directory; prints JSON: name → characters of the answer, most memory so far in MiB; on
standard error each name before it is read, for when the limits end the process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from strata.site_file.document import MAXIMUM_BYTES
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

HEAD = "name: hall\ndomain: hall.example.org\n"
REPEATED = {
    "brackets": "[",
    "braces": "{",
    "dashes": "- ",
    "keys": "a: ",
    "question marks": "? ",
    "commas": ",",
    "quotes": '"',
    "stars": "*a ",
    "anchors": "&a ",
    "bangs": "! ",
    "percents": "%\n",
    "documents": "---\n",
    "line ends": "\r",
    "spaces": " ",
    "tabs": "\t",
    "comments": "#\n",
    "lists in a list": "- []\n",
    "mappings in a list": "- {a: 1}\n",
    "null characters": '- "\\0"\n',
    "bells": "- \a\n",
    "digits": "9",
    "letters": "x",
    "emoji": "😀",
    "conflicts": "<<<<<<< a\n",
}
SECTIONS = {
    "unknown keys": "".join(f"k{i}: 1\n" for i in range(200_000)),
    "one key often": "k: 1\n" * 400_000,
    "wrong instances": "cloud: {instances: [" + "{a: [1]}, " * 300_000 + "]}",
    "wrong cards": "cloud: {flavors: [{accelerators: {" + ", ".join(f"c{i}: 1" for i in range(200_000)) + "}}]}",
    "many secrets": "secrets: [" + "{name: a, source: environment}, " * 100_000 + "]",
    "many tenants": "platform: {tenants: [" + "{name: a, quota: {cpu: 1, memory: 1 GiB}}, " * 80_000 + "]}",
    "many databases": "hosts: {postgresql: {databases: [" + ", ".join(f"d{i}" for i in range(300_000)) + "]}}",
    "aliases": "a: &a x\nb: [" + "*a, " * 500_000 + "]",
    "a long key": '"' + "k" * 2_000_000 + '": 1',
    "a long explicit key": "? " + "k" * 2_000_000 + "\n: 1",
    "a long tag": "a: !" + "t" * 2_000_000 + " 1",
    "a long anchor": "a: *" + "t" * 2_000_000,
    "a long domain": "domain: " + "a." * 1_000_000,
    "a long size": "cloud: {flavors: [{memory: '" + "1" * 1_000_000 + " GiB'}]}",
    "a long network": "cluster: {name: a, pod_network: '" + "1," * 1_000_000 + "/8'}",
    "a long number": "cloud: {flavors: [{vcpus: " + "1" * 1_000_000 + "}]}",
    "a long separated number": "cloud: {flavors: [{vcpus: '" + "1,111" * 500_000 + "'}]}",
    "a long role": "hosts: {machines: [{roles: [" + "r" * 1_000_000 + "]}]}",
    "a long template": "domain: '" + "{{" * 1_000_000 + "'",
}


def main() -> None:
    directory = Path(sys.argv[1])
    cases = {name: HEAD + text * (MAXIMUM_BYTES // 4 // len(text.encode())) for name, text in REPEATED.items()}
    cases |= {name: (HEAD + text)[:MAXIMUM_BYTES] for name, text in SECTIONS.items()}
    answers: dict[str, dict[str, int]] = {}
    file = directory / "site.yaml"
    for name, text in cases.items():
        file.write_bytes(text.encode())
        print(name, file=sys.stderr)
        try:
            load_site(file)
            said = ""
        except SiteError as error:
            said = str(error)
        assert said.replace("\n", "").isprintable(), name
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers[name] = {"characters": len(said), "memory": round(memory)}
    json.dump(answers, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
