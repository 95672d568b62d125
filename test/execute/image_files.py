"""The images that images.py trains on, written by Pillow, or here where Pillow cannot."""

import io
import os
import pathlib
import struct
import tarfile
import zlib

import numpy as np
from PIL import Image

CLASSES = ["cat", "Dog", "owl"]


def picture(draw, width, height, mode="RGB"):
    """A smooth image with edges and noise, unlike its mirror."""
    y, x = np.mgrid[:height, :width]
    planes = [127 + 90 * np.sin(x / draw.uniform(3, 40) + draw.uniform(0, 6)) * np.cos(y / draw.uniform(3, 40)) for _ in mode]
    pixels = np.stack(planes, -1) + draw.normal(0, 12, (height, width, len(mode)))
    pixels[: height // 3, : width // 4] = draw.integers(0, 256, len(mode))
    pixels = pixels.clip(0, 255).astype("uint8")
    return Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode=None if mode != "CMYK" else "CMYK")


def write_folder(folder, count):
    """Images of any size in folders of classes, which also hold another file and a folder; (path, class) in torchvision's order."""
    draw = np.random.default_rng(3)
    for i in range(count):
        path = folder / CLASSES[i % 3] / ("more" if i % 5 == 4 else "") / (f"{i * 37 % 100:03}" + (".png", ".JPG", ".jpeg")[i % 3 if i % 2 else 0])
        path.parent.mkdir(parents=True, exist_ok=True)
        image = picture(draw, int(draw.integers(8, 90)), int(draw.integers(8, 90)))
        image.save(path, "PNG" if path.suffix == ".png" else "JPEG", **({} if path.suffix == ".png" else {"quality": 90}))
    (folder / "cat" / "notes.txt").write_text("no image")
    found = []
    for label, name in enumerate(sorted(CLASSES)):  # as torchvision.datasets.folder.make_dataset goes through them
        for root, _, files in sorted(os.walk(folder / name, followlinks=True)):
            found += [(pathlib.Path(root) / file, label) for file in sorted(files) if not file.endswith(".txt")]
    assert len(found) == count
    return found


def png(width, height, depth, colour, rows, passes=None):
    """A PNG file of what Pillow does not write: 16 bits, or seven interlaced passes. `rows` gives the bytes of the pixels (x, y) of a line."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    adam7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    lines = [[(x, y) for x in range(left, width, dx)] for left, top, dx, dy in (adam7 if passes else [(0, 0, 1, 1)]) for y in range(top, height, dy)]
    data = b"".join(b"\0" + rows(line) for line in lines if line)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(bool(passes)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def write_kinds(folder, width, height):
    """Images of every kind in one size; their pixels in RGB, and the difference that is allowed, by name."""
    draw, found = np.random.default_rng(5), {}
    folder.mkdir()

    def save(name, image, **options):
        image.save(folder / name, **options)
        found[name] = np.asarray(Image.open(folder / name).convert("RGB")), 1 if name.endswith("jpg") else 0

    colour, gray = picture(draw, width, height), picture(draw, width, height, "L")
    save("gray.jpg", gray)
    save("fine.jpg", colour, quality=100, subsampling=0)
    save("halved.jpg", colour, subsampling=2)
    save("sideways.jpg", colour, subsampling=1)
    save("progressive.jpg", colour, progressive=True)
    save("cmyk.jpg", picture(draw, width, height, "CMYK"))
    turned = Image.Exif()
    turned[0x0112] = 6  # a camera's orientation, which is not applied
    save("turned.jpg", colour, exif=turned)
    save("gray.png", gray)
    save("bits.png", gray.convert("1"))
    save("colour.png", colour)
    save("palette.png", colour.convert("P"))
    save("few.png", colour.quantize(4), bits=2)
    save("clear.png", colour.convert("P"), transparency=7)
    alpha = gray.resize(colour.size)
    save("alpha.png", Image.merge("RGBA", (*colour.split(), alpha)))
    save("gray-alpha.png", Image.merge("LA", (gray, alpha)))
    deep = draw.integers(0, 65536, (height, width, 3), "uint16")
    Image.fromarray(deep[..., 0]).save(folder / "deep.png")
    found["deep.png"] = np.repeat(deep[..., :1] >> 8, 3, -1).astype("uint8"), 0  # the higher byte: Pillow would clip gray at 255
    (folder / "deep-colour.png").write_bytes(png(width, height, 16, 2, lambda line: b"".join(deep[y, x].astype(">u2").tobytes() for x, y in line)))
    found["deep-colour.png"] = (deep >> 8).astype("uint8"), 0
    pixels = np.asarray(colour)
    (folder / "interlaced.png").write_bytes(png(width, height, 8, 2, lambda line: b"".join(pixels[y, x].tobytes() for x, y in line), True))
    found["interlaced.png"] = pixels, 0
    (folder / "misnamed.jpg").write_bytes((folder / "colour.png").read_bytes())
    found["misnamed.jpg"] = pixels, 0
    return found


def write_shards(work, files):
    """The same images in three tar files as WebDataset writes them; labels in .cls and .json, long names, members in any order."""
    per = -(-len(files) // 3)
    for shard in range(3):
        kind = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)[shard]
        with tarfile.open(work / f"train-{shard:03}.tar", "w", format=kind) as tar:
            for i, (path, label) in list(enumerate(files))[shard * per : (shard + 1) * per]:
                key = ("long/" * (30 if shard < 2 else 20)) + f"{i:05}"
                parts = {"x.txt": b"other", path.suffix[1:].lower(): path.read_bytes()}
                parts |= {"cls": b"%d\n" % label} if i % 2 else {"json": b'{"label": %d, "note": ["a"]}' % label}
                for name, data in sorted(parts.items(), reverse=bool(i % 3)):
                    member = tarfile.TarInfo(f"{key}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
