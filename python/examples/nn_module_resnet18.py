"""ResNet-18, written as PyTorch users write it, trained in two Python processes
by local loss; its state_dict goes back into the whole model.

usage: python nn_module_resnet18.py [TURNS]    (in python/examples)
"""
import sys

import torch
from torch import nn

import sluice


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    """For images [N, 3, H, W]."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.inplanes = 64
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(64, 1)
        self.layer2 = self._make_layer(128, 2)
        self.layer3 = self._make_layer(256, 2)
        self.layer4 = self._make_layer(512, 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512, num_classes)

    def _make_layer(self, planes, stride):
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, planes, 1, stride, bias=False),
                nn.BatchNorm2d(planes))
        blocks = [BasicBlock(self.inplanes, planes, stride, downsample),
                  BasicBlock(planes, planes)]
        self.inplanes = planes
        return nn.Sequential(*blocks)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def parts(model):
    """The same model as a list of layers that can be cut between; they share
    its modules."""
    return [nn.Sequential(model.conv1, model.bn1, model.relu, model.maxpool),
            model.layer1, model.layer2, model.layer3, model.layer4,
            nn.Sequential(model.avgpool, nn.Flatten(), model.fc)]


def network(model, engine, size=32, **more):
    """In two blocks; the lower one learns by a loss of its own."""
    return sluice.Network(
        parts(model), torch.zeros(1, 3, size, size), cuts=[3],
        boundaries="local_loss, head = {name = 'conv'}",
        optimizer="sgd, lr = 0.05, momentum = 0.9", engine=engine, **more)


def main(turns=20):
    torch.manual_seed(1)
    model = ResNet18(num_classes=10)
    colours = torch.rand(10, 3, 1, 1)  # of each class
    with network(model, "processes") as net:
        for _ in range(turns):
            labels = torch.randint(10, (16,))
            step = net.step(colours[labels] + torch.randn(16, 3, 32, 32) / 4,
                            labels)
            print(step.turn, *step.losses)
        net.drain()
        net.modules(into=parts(model))  # the weights, back into the model
        images = colours.expand(10, 3, 32, 32)
        with torch.no_grad():
            far = (model.eval()(images) - net(images)).abs().max()
        print(f"logits of the model differ by {far:.1e} at most")
    again = ResNet18(num_classes=10)
    again.load_state_dict(model.state_dict())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
