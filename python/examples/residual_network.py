"""ResNet-18 and ResNet-50 in plain PyTorch, in the form and with the names of
torchvision's public definition (He et al. 2015, arXiv:1512.03385; the stride of
a bottleneck is that of its 3x3 convolution). Nothing of Sluice is in it.
"""
from torch import Tensor, flatten, nn


def conv3x3(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1,
                     bias=False)


def conv1x1(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride, downsample):
        super().__init__()
        self.conv1 = conv3x3(inputs, width, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(width, width)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride, downsample):
        super().__init__()
        self.conv1 = conv1x1(inputs, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv3x3(width, width, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv1x1(width, width * self.expansion)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """[N, 3, H, W] -> [N, classes].

    width: channels of the first stage (torchvision: 64). for_32_pixels: with
    the stem that is usual for CIFAR, a 3x3 convolution and no pooling.
    """

    def __init__(self, block, blocks, classes, width=64, for_32_pixels=True):
        super().__init__()
        self.inplanes = width
        if for_32_pixels:
            self.conv1 = conv3x3(3, width)
            self.maxpool = nn.Identity()
        else:
            self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3,
                                   bias=False)
            self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = self._make_layer(block, width, blocks[0], 1)
        self.layer2 = self._make_layer(block, 2 * width, blocks[1], 2)
        self.layer3 = self._make_layer(block, 4 * width, blocks[2], 2)
        self.layer4 = self._make_layer(block, 8 * width, blocks[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width * block.expansion, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out",
                                        nonlinearity="relu")

    def _make_layer(self, block, width, count, stride):
        outputs = width * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != outputs:
            downsample = nn.Sequential(
                conv1x1(self.inplanes, outputs, stride),
                nn.BatchNorm2d(outputs))
        layers = [block(self.inplanes, width, stride, downsample)]
        self.inplanes = outputs
        for _ in range(1, count):
            layers.append(block(outputs, width, 1, None))
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = flatten(self.avgpool(x), 1)
        return self.fc(x)


def resnet18(classes=10, **options):
    return ResNet(BasicBlock, [2, 2, 2, 2], classes, **options)


def resnet50(classes=10, **options):
    return ResNet(Bottleneck, [3, 4, 6, 3], classes, **options)
