"""Convolutional networks without shortcuts."""
from sluice.models.chain import Builder

POOL = 0
# Channels of the convolutions, from the input up.
VGG8B = [128, 256, POOL, 256, 512, POOL, 512, POOL, 512, POOL]
VGG11B = [128, 128, 128, 256, POOL, 256, 512, POOL, 512, 512, POOL, 512, POOL]


def conv3(options, sample):
    builder = Builder(sample["shape"])
    for pool in (Builder.max_pool, Builder.avg_pool, Builder.avg_pool):
        builder.entry().conv(options["channels"], 5, padding=2)
        if options["batch_norm"]:
            builder.norm()
        builder.activation("relu")
        pool(builder, 3, 3).dropout(options["dropout"])
    return builder.entry().flatten().linear(sample["classes"]).layers


def small_conv(options, sample):
    builder = Builder(sample["shape"])
    for channels in options["channels"]:
        builder.entry().conv(channels, 3, padding=1)
        if options["batch_norm"]:
            builder.norm()
        builder.activation("relu").max_pool(2, 2)
    builder.entry().flatten()
    if options["hidden"] > 0:
        builder.linear(options["hidden"])
        if options["batch_norm"]:
            builder.norm()
        builder.activation("relu").dropout(options["dropout"]).entry()
    return builder.linear(sample["classes"]).layers


class Between:
    """What lies between two layers with weights: above a cut, or below it."""

    def __init__(self, builder, dropout):
        self.builder, self.dropout = builder, dropout
        self.pool = self.is_there = False

    def put(self, pool):
        self.pool, self.is_there = pool, True

    def add(self):
        """To the last entry; then nothing lies there any more."""
        if self.is_there and self.pool:
            self.builder.max_pool(2, 2)
        if self.is_there:
            self.builder.dropout(self.dropout, of_channels=True)
        self.is_there = False


def vgg(plan, options, sample):
    builder = Builder(sample["shape"])
    between = Between(builder, options["dropout"])

    def end(pool):
        builder.norm().activation(options["activation"])
        between.put(pool)
        if not options["head_before_pool"]:
            between.add()

    for channels, following in zip(plan, [*plan[1:], None]):
        if channels == POOL:
            continue
        builder.entry()
        between.add()
        builder.conv(int(channels * options["width"]), 3, padding=1)
        end(following == POOL)
    builder.entry()
    between.add()
    builder.flatten().linear(options["hidden"])
    end(False)
    builder.entry()
    between.add()
    return builder.linear(sample["classes"]).layers


def vgg8b(options, sample):
    return vgg(VGG8B, options, sample)


def vgg11b(options, sample):
    return vgg(VGG11B, options, sample)
