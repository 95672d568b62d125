"""What a program feeds of an image, from its seed: an independent account of runtime/data/images/Framing.h and of permutation() in
runtime/data/Shuffle.h. The geometry is that of torchvision's Resize, CenterCrop and RandomResizedCrop."""

import math

from PIL import Image

from token_order import GOLDEN, WORD, mix

PURPOSE = 0x696D616765730000  # "images"


def order(seed, epoch, count):
    """The permutation of range(count): Fisher and Yates, from the last position."""
    found, start = list(range(count)), mix(seed) ^ mix(~epoch & WORD)
    for i in range(count - 1, 0, -1):
        j = (mix((start + i * GOLDEN) & WORD) >> 32) * (i + 1) >> 32
        found[i], found[j] = found[j], found[i]
    return found


class Draws:
    """The random numbers of a sample in an epoch."""

    def __init__(self, seed, epoch, sample):
        key = mix(seed ^ PURPOSE) ^ mix(~epoch & WORD)
        self.state, self.count = mix((key + sample * GOLDEN) & WORD), 0

    def bits(self):
        self.count += 1
        return mix((self.state + (self.count - 1) * GOLDEN) & WORD)

    def uniform(self, low, high):
        return low + (high - low) * (self.bits() >> 11) * 2.0**-53

    def below(self, count):
        return self.bits() * count >> 64


def random_part(image, width, height, draws):
    """RandomResizedCrop((height, width)) of an image of Pillow."""
    area, logs = image.width * image.height, (math.log(3 / 4), math.log(4 / 3))
    for _ in range(10):
        target = area * draws.uniform(0.08, 1)
        ratio = math.exp(draws.uniform(*logs))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= image.width and 0 < h <= image.height:
            y = draws.below(image.height - h + 1)
            x = draws.below(image.width - w + 1)
            break
    else:
        w, h = image.width, image.height
        if w / h < 3 / 4:
            h = round(w / (3 / 4))
        elif w / h > 4 / 3:
            w = round(h * (4 / 3))
        x, y = (image.width - w) // 2, (image.height - h) // 2
    return image.crop((x, y, x + w, y + h)).resize((width, height), Image.Resampling.BILINEAR)


def middle(image, width, height, shorter=None):
    """Resize(shorter) and CenterCrop((height, width)); without `shorter`, the size at which the image just covers the crop."""
    if shorter:
        w, h = (shorter, shorter * image.height // image.width) if image.width <= image.height else (shorter * image.width // image.height, shorter)
    elif image.width * height <= image.height * width:
        w, h = width, max(height, width * image.height // image.width)
    else:
        w, h = max(width, height * image.width // image.height), height
    image = image.resize((w, h), Image.Resampling.BILINEAR)
    x, y = round((w - width) / 2), round((h - height) / 2)
    return image.crop((x, y, x + width, y + height))


def augmented(image, width, height, draws, crop, flip):
    """What --augment makes of an image."""
    image = random_part(image, width, height, draws) if crop else middle(image, width, height)
    if flip and draws.uniform(0, 1) < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image
