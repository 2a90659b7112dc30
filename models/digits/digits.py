"""Handwritten digits: a small convolutional network trained in the build on 1797 images of 8x8 pixels in ten classes.

digits.csv.gz has an image in each line, its pixels of 0 to 16 and then its class: the test set of "Optical Recognition
of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, CC BY 4.0). 360 images are
held out; `evaluation_set` returns them.
"""

from pathlib import Path

import numpy
import torch
from torch import nn
from tqdm import tqdm

_HELD_OUT = 360
_EPOCHS = 12
_BATCH = 32


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 2 * 2, 10),
    ).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    images, _ = _split(held_out=True)
    return (images[:1],)


def train() -> nn.Module:
    """Minimises the cross entropy over the training images; prints the accuracy over the held-out ones."""
    net = model().train()
    images, labels = _split(held_out=False)
    batches = len(images) // _BATCH
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=_EPOCHS * batches)
    for _ in tqdm(range(_EPOCHS), desc="digits", unit="epoch"):
        for batch in torch.randperm(len(images))[: batches * _BATCH].split(_BATCH):
            loss = nn.functional.cross_entropy(net(images[batch]), labels[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    net.eval()
    images, labels = _split(held_out=True)
    with torch.no_grad():
        right = int((net(images).argmax(dim=1) == labels).sum())
    print(f"accuracy over {len(labels)} held-out images {right / len(labels):.4f}")
    return net


def evaluation_set() -> tuple[list[tuple[torch.Tensor, ...]], torch.Tensor]:
    images, labels = _split(held_out=True)
    return [(image.unsqueeze(0),) for image in images], labels


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    images, _ = _split(held_out=False)
    return [(image.unsqueeze(0),) for image in images[:100]]


def _split(held_out: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Images [n, 1, 8, 8] scaled to [0, 1] and their labels; the same random split every time."""
    rows = torch.from_numpy(numpy.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=","))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    chosen = rows[order[:_HELD_OUT] if held_out else order[_HELD_OUT:]]
    return chosen[:, :-1].float().div(16).reshape(-1, 1, 8, 8), chosen[:, -1].long()
