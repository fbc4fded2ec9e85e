"""Security descriptors as text: SDDL ([MS-DTYP] 2.5.1).

Read and written: owner, group, both lists with their flags, the basic, object, label and policy entries.
Not in this grammar's reach here: conditional and resource attribute entries, and the control bits other than
P, AR and AI; they live in the byte form only. "NO_ACCESS_CONTROL", which the document leaves out and the
Windows tools use, stands for a NULL list.
"""

import re
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from lior.errors import IllegalSecurityDescriptor
from lior.security import OBJECT_TYPES, Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor, Sid

MAX_TEXT: Final = 1 << 20  # two full lists of 64 KiB take less

_SID_TOKENS: Final[dict[str, Sid]] = {
    **{
        token: Sid(5, (32, rid))
        for token, rid in {
            "BA": 544, "BU": 545, "BG": 546, "PU": 547, "AO": 548, "SO": 549, "PO": 550, "BO": 551, "RE": 552,
            "RU": 554, "RD": 555, "NO": 556, "MU": 558, "LU": 559, "IS": 568, "CY": 569, "ER": 573, "CD": 574,
            "RA": 575, "ES": 576, "MS": 577, "HA": 578, "AA": 579, "RM": 580,
        }.items()
    },
    **{
        token: Sid(5, (rid,))
        for token, rid in {
            "NU": 2, "IU": 4, "SU": 6, "AN": 7, "ED": 9, "PS": 10, "AU": 11, "RC": 12, "SY": 18, "LS": 19,
            "NS": 20, "WR": 33,
        }.items()
    },
    "WD": Sid(1, (0,)), "CO": Sid(3, (0,)), "CG": Sid(3, (1,)), "OW": Sid(3, (4,)),
    "UD": Sid(5, (84, 0, 0, 0, 0, 0)), "AC": Sid(15, (2, 1)),
    "LW": Sid(16, (4096,)), "ME": Sid(16, (8192,)), "MP": Sid(16, (8448,)), "HI": Sid(16, (12288,)),
    "SI": Sid(16, (16384,)),
}  # fmt: skip
_TOKEN_OF: Final = {sid: token for token, sid in _SID_TOKENS.items()}
_DOMAIN_RIDS: Final = {
    "DA": 512, "DU": 513, "DG": 514, "DC": 515, "DD": 516, "CA": 517, "PA": 520, "CN": 522, "RS": 553,
}  # fmt: skip
_ROOT_DOMAIN_RIDS: Final = {"RO": 498, "SA": 518, "EA": 519}
_MACHINE_RIDS: Final = {"LA": 500, "LG": 501}

_ACE_TYPES: Final = {
    "A": AceType.ACCESS_ALLOWED,
    "D": AceType.ACCESS_DENIED,
    "OA": AceType.ACCESS_ALLOWED_OBJECT,
    "OD": AceType.ACCESS_DENIED_OBJECT,
    "AU": AceType.SYSTEM_AUDIT,
    "OU": AceType.SYSTEM_AUDIT_OBJECT,
    "ML": AceType.SYSTEM_MANDATORY_LABEL,
    "SP": AceType.SYSTEM_SCOPED_POLICY_ID,
}
_ACE_TYPE_NAMES: Final = {int(value): name for name, value in _ACE_TYPES.items()}
_UNREADABLE_TYPES: Final = frozenset({"XA", "XD", "XU", "ZA", "RA"})
_ACE_FLAGS: Final = {
    "OI": AceFlags.OBJECT_INHERIT,
    "CI": AceFlags.CONTAINER_INHERIT,
    "NP": AceFlags.NO_PROPAGATE_INHERIT,
    "IO": AceFlags.INHERIT_ONLY,
    "ID": AceFlags.INHERITED,
    "SA": AceFlags.SUCCESSFUL_ACCESS,
    "FA": AceFlags.FAILED_ACCESS,
}
_GENERAL_RIGHTS: Final = {  # in the order they are written
    "GA": 0x10000000, "GR": 0x80000000, "GW": 0x40000000, "GX": 0x20000000,
    "RC": 0x00020000, "SD": 0x00010000, "WD": 0x00040000, "WO": 0x00080000,
}  # fmt: skip
_RIGHTS: Final = {
    **_GENERAL_RIGHTS,
    "FA": 0x001F01FF, "FX": 0x001200A0, "FW": 0x00120116, "FR": 0x00120089,
    "KA": 0x000F003F, "KR": 0x00020019, "KX": 0x00020019, "KW": 0x00020006,
    "CR": 0x100, "LO": 0x80, "DT": 0x40, "WP": 0x20, "RP": 0x10, "SW": 0x08, "LC": 0x04, "DC": 0x02, "CC": 0x01,
}  # fmt: skip
_NUMBER: Final = re.compile(r"0X([0-9A-F]{1,8})|0([0-7]{1,11})|(0|[1-9][0-9]{0,9})")
_GUID: Final = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
_SID: Final = re.compile(r"S-1-(?:0X[0-9A-F]{12}|[0-9]{1,10})(?:-[0-9]{1,10}){0,15}|[A-Z]{2}")
_LIST: Final = re.compile(r"((?:P|AR|AI)*)(NO_ACCESS_CONTROL)?")
_NULL_LIST: Final = "NO_ACCESS_CONTROL"
_LIST_FLAGS: Final = {
    "D": {"P": Control.DACL_PROTECTED, "AR": Control.DACL_COMPUTED, "AI": Control.DACL_AUTO_INHERITED},
    "S": {"P": Control.SACL_PROTECTED, "AR": Control.SACL_COMPUTED, "AI": Control.SACL_AUTO_INHERITED},
}
_PRESENT: Final = {"D": Control.DACL_PRESENT, "S": Control.SACL_PRESENT}


def format_sddl(descriptor: SecurityDescriptor) -> str:
    """The text of a descriptor. Refuses one with entries that have no text form, rather than leave them out."""
    parts: list[str] = []
    if descriptor.owner is not None:
        parts.append("O:" + _format_sid(descriptor.owner))
    if descriptor.group is not None:
        parts.append("G:" + _format_sid(descriptor.group))
    for letter, acl in (("D", descriptor.dacl), ("S", descriptor.sacl)):
        if descriptor.control & _PRESENT[letter]:
            flags = "".join(name for name, bit in _LIST_FLAGS[letter].items() if descriptor.control & bit)
            aces = _NULL_LIST if acl is None else "".join(map(_format_ace, acl.aces))
            parts.append(f"{letter}:{flags}{aces}")
    return "".join(parts)


def _format_sid(sid: Sid) -> str:
    return _TOKEN_OF.get(sid) or str(sid)


def _format_ace(ace: Ace) -> str:
    name = _ACE_TYPE_NAMES.get(ace.type)
    unknown_flags = ace.flags & ~int(sum(_ACE_FLAGS.values()))
    if name is None or unknown_flags:
        raise IllegalSecurityDescriptor(
            f"an ACE of type 0x{ace.type:02X} with flags 0x{ace.flags:02X} has no text form",
            where="SDDL",
            remedy="use the byte form of the descriptor",
        )
    flags = "".join(text for text, bit in _ACE_FLAGS.items() if ace.flags & bit)
    guids = ("" if guid is None else str(guid) for guid in (ace.object_type, ace.inherited_object_type))
    return "(" + ";".join((name, flags, _format_rights(ace.mask), *guids, _format_sid(ace.sid))) + ")"


def _format_rights(mask: int) -> str:
    """Letters when the mask is made of generic and standard rights alone, else hexadecimal."""
    letters = [name for name, bit in _GENERAL_RIGHTS.items() if mask & bit]
    return "".join(letters) if mask == sum(_GENERAL_RIGHTS[name] for name in letters) else f"0x{mask:x}"


def parse_sddl(
    text: str, *, domain: Sid | None = None, root_domain: Sid | None = None, machine: Sid | None = None
) -> SecurityDescriptor:
    """Read a descriptor. Tokens such as DA or LA are relative: they need the SID of their issuer."""
    text = text.strip()
    if not text.isascii() or len(text) > MAX_TEXT:
        raise _illegal("it is too long, or not plain ASCII", 0)
    return _Parser(text.upper(), _issuers(domain, root_domain, machine)).parse()


def _issuers(domain: Sid | None, root_domain: Sid | None, machine: Sid | None) -> dict[str, Sid | None]:
    """Each relative token with the SID it stands for, None while its issuer is not given."""
    tokens: dict[str, Sid | None] = {}
    for rids, issuer in ((_DOMAIN_RIDS, domain), (_ROOT_DOMAIN_RIDS, root_domain), (_MACHINE_RIDS, machine)):
        for token, rid in rids.items():
            tokens[token] = None if issuer is None else Sid(issuer.authority, (*issuer.sub_authorities, rid))
    return tokens


def _illegal(what: str, at: int, remedy: str = "") -> IllegalSecurityDescriptor:
    return IllegalSecurityDescriptor(what, where=f"SDDL at character {at}", remedy=remedy)


class _Parser:
    """One pass over upper-case text; `at` only moves forward."""

    def __init__(self, text: str, relative: dict[str, Sid | None]) -> None:
        self.text = text
        self.relative = relative
        self.at = 0

    def parse(self) -> SecurityDescriptor:
        sids: dict[str, Sid] = {}
        lists: dict[str, Acl | None] = {}
        control = 0
        while self.at < len(self.text):
            start, part = self.at, self.text[self.at : self.at + 2]
            self.at += 2
            letter = part[0]
            if part not in ("O:", "G:", "D:", "S:") or letter in sids or letter in lists:
                raise _illegal(f"{part!r} is not one of O: G: D: S:, or comes twice", start)
            if letter in "OG":
                sids[letter] = self._sid()
            else:
                lists[letter], flags = self._list(letter)
                control |= flags
        return SecurityDescriptor(sids.get("O"), sids.get("G"), lists.get("D"), lists.get("S"), control)

    def _sid(self) -> Sid:
        match = _SID.match(self.text, self.at)
        if match is None:
            raise _illegal("a SID is missing", self.at)
        self.at = match.end()
        return self._named_sid(match[0], match.start())

    def _named_sid(self, name: str, at: int) -> Sid:
        if name.startswith("S-"):
            return Sid.parse(name)
        sid = _SID_TOKENS.get(name) or self.relative.get(name)
        if sid is None:
            what = f"{name} depends on a domain or machine that is not given"
            raise _illegal(what if name in self.relative else f"{name!r} is not a SID", at, "write the SID in full")
        return sid

    def _list(self, letter: str) -> tuple[Acl | None, int]:
        match = _LIST.match(self.text, self.at)
        flags, null = match.groups() if match else ("", None)
        self.at = match.end() if match else self.at
        bits = int(_PRESENT[letter])
        for name in re.findall("P|AR|AI", flags):
            bits |= int(_LIST_FLAGS[letter][name])
        return (None if null else Acl.of(*self._aces())), bits

    def _aces(self) -> Iterator[Ace]:
        while self.text.startswith("(", self.at):
            start = self.at
            end = self.text.find(")", start)
            if end < 0:
                raise _illegal("the entry has no end", start)
            self.at = end + 1
            yield self._ace(self.text[start + 1 : end].split(";"), start)

    def _ace(self, fields: list[str], start: int) -> Ace:
        if fields[0] in _UNREADABLE_TYPES:
            raise _illegal("conditional and attribute entries are not evaluated here", start, "use plain entries")
        ace_type = _ACE_TYPES.get(fields[0])
        if ace_type is None or len(fields) != 6:
            raise _illegal(
                "an entry is (type;flags;rights;object;inherited object;SID)", start, "see docs/security-descriptors.md"
            )
        _, flags, rights, object_type, inherited_type, sid = fields
        if (object_type or inherited_type) and ace_type not in OBJECT_TYPES:
            raise _illegal(f"an entry of type {fields[0]} has no object type", start)
        return Ace(
            int(ace_type),
            _flags(flags, start),
            _rights(rights, start),
            self._named_sid(sid, start),
            object_type=_guid(object_type, start),
            inherited_object_type=_guid(inherited_type, start),
        )


def _pairs(text: str, names: dict[str, int], what: str, at: int) -> int:
    bits = 0
    for index in range(0, len(text), 2):
        value = names.get(text[index : index + 2])
        if value is None:
            raise _illegal(f"{text[index : index + 2]!r} is not {what}", at)
        bits |= value
    return bits


def _flags(text: str, at: int) -> int:
    return _pairs(text, {name: int(bit) for name, bit in _ACE_FLAGS.items()}, "an ACE flag", at)


def _rights(text: str, at: int) -> int:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return _pairs(text, _RIGHTS, "an access right", at)
    hexadecimal, octal, decimal = number.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    if value > 0xFFFFFFFF:
        raise _illegal(f"{text} is over 32 bits", at)
    return value


def _guid(text: str, at: int) -> UUID | None:
    if not text:
        return None
    if _GUID.fullmatch(text) is None:
        raise _illegal(f"{text[:40]!r} is not a GUID", at)
    return UUID(text)
