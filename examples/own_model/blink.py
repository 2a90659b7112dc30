import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 4),)
