"""The linear layer of LibTorch's C++ modules."""
import torch
from torch import nn


class Linear(nn.Linear):
    """nn.Linear with the operations of torch::nn::Linear, which adds the bias of
    an input of three dimensions afterwards: torch's own may round otherwise."""

    def forward(self, x):
        if x.dim() == 2 and self.bias is not None:
            return torch.addmm(self.bias, x, self.weight.t())
        y = torch.matmul(x, self.weight.t())
        return y if self.bias is None else y + self.bias
