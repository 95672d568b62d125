"""Tar files of six samples, with what the tars case of images.py expects: all of them, or a message."""

import io
import tarfile


def pack(members, kind=tarfile.USTAR_FORMAT):
    """A tar file of (name, bytes), or (name, type of member, what it links to)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=kind) as tar:
        for name, *rest in members:
            member = tarfile.TarInfo(name)
            if len(rest) == 1:
                member.size = len(rest[0])
                tar.addfile(member, io.BytesIO(rest[0]))
            else:
                member.type, member.linkname = rest
                tar.addfile(member)
    return packed.getvalue()


def pax(*records):
    """An extended header, before the member that it is of."""
    body = b""
    for record in records:
        length = len(record) + 2
        while len(str(length)) + len(record) + 2 != length:
            length += 1
        body += b"%d %s\n" % (length, record)
    header = tarfile.TarInfo("x")
    header.type, header.size = b"x", len(body)
    return header.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512)


def files(images):
    """Bytes and message of each file by name; a message that begins with a member's name is about its label."""
    png, webp = [], io.BytesIO()
    for image in images:
        packed = io.BytesIO()
        image.save(packed, "PNG")
        png.append(packed.getvalue())
    images[1].save(webp, "WEBP")
    samples = [(f"{i}.{kind}", data) for i, image in enumerate(png) for kind, data in (("png", image), ("cls", b"%d" % (i % 3)))]

    def second(*members):
        return pack([*samples[:2], *members, *samples[4:]])

    whole = pack(samples)
    start, end = whole.index(b"1.png"), whole.index(b"3.png")
    label = ("1.cls", b"1")
    return {
        "whole": (whole, ""),
        "labels-first": (pack([samples[i ^ 1] for i in range(12)]), ""),
        "empty-pax-path": (whole[:start] + pax(b"path=") + whole[start:], ""),
        "pax-path": (whole[:start] + pax(b"path=1.png") + whole[start:], ""),
        "other-members": (pack([("a.txt", b"a"), ("b.txt", tarfile.LNKTYPE, "a.txt"), ("folder", tarfile.DIRTYPE, ""), *samples]), ""),
        "jfif": (second(("1.jfif", png[1]), label), ""),
        "webp": (second(("1.webp", webp.getvalue()), label), "has the image '1.webp', which is neither JPEG nor PNG: convert it, or leave it out"),
        "avif": (second(("1.AVIF", b"x"), label), "has the image '1.AVIF', which is neither JPEG nor PNG"),
        "hard-link": (second(("1.png", tarfile.LNKTYPE, "0.png"), label), "has the member '1.png', which is a hard link: pack the files themselves"),
        "hard-linked-label": (second(samples[2], ("1.cls", tarfile.LNKTYPE, "0.cls")), "has the member '1.cls', which is a hard link: pack the files"),
        "symbolic-link": (second(("1.png", tarfile.SYMTYPE, "0.png"), label), "has the member '1.png', which is a symbolic link: pack the files"),
        "fifo": (second(("1.png", tarfile.FIFOTYPE, ""), label), "has the member '1.png', which is a FIFO"),
        "joined": (pack(samples[:6]) + pack(samples[6:]), "goes on behind its end at byte "),
        "one-zero-block": (whole[:end] + bytes(512) + whole[end:], f"goes on behind its end at byte {end}, as files do that were joined: give them one by one"),
        "cut-behind-a-member": (whole[:end], "is truncated: it has no block of zeros at its end"),
        "cut-in-padding": (whole[: end - 100], "is truncated"),
        "empty": (b"", "is no tar file; it looks like an empty file"),
        "sparse": (whole[:start] + pax(b"GNU.sparse.major=1", b"GNU.sparse.minor=0") + whole[start:], "has a sparse member"),
        "label-alone": (second(("1.left.png", png[1]), label), "has the label '1.cls' without an image: KEY.jpg, KEY.jpeg or KEY.png stands beside its label, with the same key"),
        "labels-behind": (pack(samples[::2] + samples[1::2]), "has the label '0.cls' without an image"),
        "no-label": (second(samples[2]), "1.png' has no label: in a tar file it stands beside its image, with the same key, as KEY.cls"),
        "two-labels": (second(samples[2], label, ("1.json", b'{"label": 2}')), "has the labels 1 and 2 in '1.cls' and '1.json'"),
        "same-label-twice": (second(samples[2], label, ("1.json", b'{"label": 1}')), ""),
        "json-beside": (second(samples[2], ("1.json", b'{"note": 2}'), label), ""),
        "json-2^64-100": (second(samples[2], ("1.json", b'{"label": 18446744073709551516}')), "1.png' has a \"label\" in its .json file that is no whole number of 64 bits"),
        "json-2^63": (second(samples[2], ("1.json", b'{"label": 9223372036854775808}')), "1.png' has a \"label\" in its .json file that is no whole number"),
        "json-2^70": (second(samples[2], ("1.json", b'{"label": 1180591620717411303424}')), "1.png' has a \"label\" in its .json file that is no whole number"),
        "json-text": (second(samples[2], ("1.json", b'{"label": "1"}')), "1.png' has a \"label\" in its .json file that is no whole number"),
        "json-1.0": (second(samples[2], ("1.json", b'{"label": 1.0}')), "1.png' has a \"label\" in its .json file that is no whole number"),
        "json-without": (second(samples[2], ("1.json", b'{"note": 1}')), "1.png' has no label: its .json file has no \"label\""),
        "cls-2^63": (second(samples[2], ("1.cls", b"9223372036854775808")), "has the label '9223372036854775808' in '1.cls', which is no whole number"),
        "large-cls": (second(samples[2], ("1.cls", b"1" + b" " * (1 << 20))), "1.png' has no label: its .cls or .json file has more than 1 MiB"),
    }
