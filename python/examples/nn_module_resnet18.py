"""ResNet-18, written as PyTorch users write it (residual_network.py), trained in
two Python processes by local loss; its state_dict goes back into the whole model.

usage: python nn_module_resnet18.py [TURNS]    (in python/examples)
"""
import sys

import torch
from torch import nn

import sluice
from residual_network import resnet18


def resnet(classes):
    """For images [N, 3, H, W]."""
    return resnet18(classes, for_32_pixels=False)


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
    model = resnet(10)
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
    again = resnet(10)
    again.load_state_dict(model.state_dict())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
