"""Networks of torchvision, timm and transformers as published, with few layers or thin ones, as fit a microcontroller.

A model file for the exporter, as networks.py is. Weights are random; statistics of batch normalization are those of
training on random images. `bazel run //conformance/networks:published` sweeps over them.
"""

import re
import sys
import types
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

# This stub stands for torchvision's description of its C++ operators, which are for another build of torch and not
# called here.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))

from conformance.networks import sweep  # noqa: E402
from conformance.networks.networks import Network  # noqa: E402

NETWORKS: dict[str, Network] = {}

_CLASSES = 10
# Some have batch normalization where one image has one pixel.
_BATCH = 2


def entries() -> dict[str, types.SimpleNamespace]:
    """Returns the models of this file, by name."""
    return {name: network.entry() for name, network in NETWORKS.items()}


def _named(*shape: int) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    def register(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        NETWORKS[make.__name__] = Network(make, shape, _BATCH)
        return make

    return register


# ---- torchvision ----


def _torchvision(name: str, **options: Any) -> None:
    def make() -> nn.Module:
        from torchvision import models

        return getattr(models, name)(num_classes=_CLASSES, **options)

    NETWORKS[f"torchvision_{name}"] = Network(make, (1, 3, 64, 64), _BATCH)


_torchvision("mobilenet_v2", width_mult=0.25)
_torchvision("mobilenet_v3_small", width_mult=0.25)
_torchvision("shufflenet_v2_x0_5")
_torchvision("squeezenet1_1")
_torchvision("mnasnet0_5")


@_named(1, 3, 64, 64)
def torchvision_efficientnet() -> nn.Module:
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig

    blocks = [(1, 3, 1, 16, 8, 1), (6, 3, 2, 8, 12, 1), (6, 5, 2, 12, 20, 1), (6, 3, 2, 20, 32, 1)]
    return EfficientNet([MBConvConfig(*block) for block in blocks], dropout=0.1, num_classes=_CLASSES)


@_named(1, 3, 64, 64)
def torchvision_densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(8, (2, 3, 2), 16, num_classes=_CLASSES)


@_named(1, 3, 64, 64)
def torchvision_convnext() -> nn.Module:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt(
        [CNBlockConfig(16, 32, 1), CNBlockConfig(32, 48, 1), CNBlockConfig(48, None, 1)], num_classes=_CLASSES
    )


@_named(1, 3, 64, 64)
def torchvision_maxvit() -> nn.Module:
    from torchvision.models import MaxVit

    return MaxVit((64, 64), 8, 4, [16, 32], [1, 1], 8, 0.0, num_classes=_CLASSES)


@_named(1, 3, 64, 64)
def torchvision_resnext() -> nn.Module:
    from torchvision.models.resnet import Bottleneck, ResNet

    return _Features(
        ResNet(Bottleneck, [1, 1, 1, 1], num_classes=_CLASSES, groups=8, width_per_group=4), ["layer3", "layer4"]
    )


@_named(1, 3, 64, 64)
def torchvision_regnet() -> nn.Module:
    from torchvision.models.regnet import BlockParams, RegNet

    blocks = BlockParams([1, 1, 2], [16, 32, 48], [8, 8, 8], [1.0, 1.0, 1.0], [2, 2, 2], se_ratio=0.25)
    return RegNet(blocks, num_classes=_CLASSES)


class _Features(nn.Module):
    """A classifier of images without some of its stages: the mean of the features that the others have."""

    def __init__(self, network: nn.Module, without: list[str]) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            *(layer for name, layer in network.named_children() if name not in [*without, "avgpool", "fc"])
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x).mean([2, 3])


@_named(1, 3, 32, 32)
def torchvision_vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    network = VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=_CLASSES)
    # All zeros until it is trained.
    for module in network.heads:
        module.reset_parameters()
    return network


def _swin(version: int) -> nn.Module:
    from torchvision.models import swin_transformer

    kinds = {
        1: (swin_transformer.SwinTransformerBlock, swin_transformer.PatchMerging),
        2: (swin_transformer.SwinTransformerBlockV2, swin_transformer.PatchMergingV2),
    }
    block, merging = kinds[version]
    return swin_transformer.SwinTransformer(
        [4, 4], 24, [1, 1], [2, 4], [4, 4], num_classes=_CLASSES, block=block, downsample_layer=merging
    )


@_named(1, 3, 32, 32)
def torchvision_swin() -> nn.Module:
    return _swin(1)


@_named(1, 3, 32, 32)
def torchvision_swin_v2() -> nn.Module:
    return _swin(2)


@_named(1, 3, 64, 64)
def torchvision_lraspp() -> nn.Module:
    """Returns a network of segmentation: every pixel's class."""
    from torchvision.models import mobilenet_v3_small
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.lraspp import LRASPP

    features = mobilenet_v3_small(width_mult=0.25).features
    backbone = IntermediateLayerGetter(features, {"3": "low", "12": "high"})
    return _Output(LRASPP(backbone, features[3].out_channels, features[12].out_channels, 4, 16), "out", "input")


class _Output(nn.Module):
    """One output of a network that has several, called with its input `given`."""

    def __init__(self, network: nn.Module, key: str | int, given: str, **options: Any) -> None:
        super().__init__()
        self.network = network
        self._key, self._given, self._options = key, given, options

    def forward(self, x: Tensor) -> Tensor:
        return self.network(**{self._given: x}, **self._options)[self._key]


# ---- timm ----


def _timm(name: str, **options: Any) -> None:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=_CLASSES, **options)

    NETWORKS[f"timm_{name}"] = Network(make, (1, 3, 64, 64), _BATCH)


# timm tests its own blocks with these, a few thousand weights each.
for _name in ("byobnet", "convnext", "convnext2", "efficientnet", "efficientnet_ln", "mambaout", "nfnet", "resnet"):
    _timm(f"test_{_name}")
for _name in ("test_vit", "test_vit2", "test_vit3"):
    _timm(_name, img_size=64)
for _name in (
    "edgenext_xx_small",
    "efficientvit_m0",
    "ghostnet_050",
    "lcnet_035",
    "mixnet_s",
    "mobilenetv3_small_050",
    "mobilenetv4_conv_small_035",
    "repghostnet_050",
    "semnasnet_050",
    "tinynet_e",
):
    _timm(_name)


# ---- transformers ----

_TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_VOCABULARY = {"vocab_size": 100}
_POSITIONS = {"max_position_embeddings": 32}
_TOKENS = (1, 12, 64)
_IMAGE = (1, 3, 32, 32)


def _transformers(
    name: str,
    given: str,
    shape: tuple[int, ...],
    *,
    kind: str = "Model",
    made_with: dict[str, Any] | None = None,
    **config: Any,
) -> None:
    """Adds a network of transformers: `<name><kind>` of a `<name>Config`, called with its input `given`."""

    def make() -> nn.Module:
        import transformers

        settings = getattr(transformers, f"{name}Config")(**config)
        network = getattr(transformers, f"{name}{kind}")(settings, **made_with or {})
        return _Output(network, 0, given, return_dict=False)

    NETWORKS[f"transformers_{name.lower()}"] = Network(make, shape, _BATCH)


# Names of classes, inputs and their shapes, and settings.
_OF_TOKENS: dict[str, dict[str, Any]] = {
    "Bert": _TEXT, "Albert": {"embedding_size": 64, **_TEXT}, "Electra": {"embedding_size": 64, **_TEXT},
    "DistilBert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    "MobileBert": {"embedding_size": 64, "intra_bottleneck_size": 32, "true_hidden_size": 32, **_TEXT},
    "Llama": {"num_key_value_heads": 2, "use_cache": False, **_TEXT},
    "Qwen3": {"num_key_value_heads": 2, "head_dim": 16, "use_cache": False, **_TEXT},
    "Gemma": {"num_key_value_heads": 2, "head_dim": 16, "use_cache": False, **_TEXT},
    "OPT": {"ffn_dim": 128, "word_embed_proj_dim": 64, "use_cache": False, **_TEXT},
    "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "use_cache": False},
}  # fmt: skip
for _name, _config in _OF_TOKENS.items():
    _more = {} if _name == "GPT2" else _POSITIONS
    _transformers(_name, "inputs_embeds", _TOKENS, **_config, **_VOCABULARY, **_more)
for _name in ("ViT", "DeiT"):
    _transformers(
        _name, "pixel_values", _IMAGE, made_with={"add_pooling_layer": False}, image_size=32, patch_size=8, **_TEXT
    )
_PATCHED = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
_WINDOWED = {"embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4}
_NECK = [8, 8, 16, 24, 32, 40, 64]
_STEPS = {"conv_dim": [16] * 3, "conv_stride": [5, 4, 4], "conv_kernel": [10, 5, 4], "num_feat_extract_layers": 3}
_WAVES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, **_STEPS}
_SPECTRUM = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96}
_OF_IMAGES: dict[str, dict[str, Any]] = {
    "Segformer": {"depths": [1] * 4, "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 1, 2, 4]},
    "MobileViT": {
        "image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": 2, "neck_hidden_sizes": _NECK,
    },
    "PoolFormer": {"depths": [1] * 4, "hidden_sizes": [8, 16, 24, 32]},
    "Levit": {
        "image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [2] * 3, "depths": [1] * 3,
        "key_dim": [8] * 3,
    },
    "Cvt": {"embed_dim": [16, 24, 32], "num_heads": [1, 2, 2], "depth": [1, 2, 3]},
    "MobileNetV1": {"image_size": 64, "depth_multiplier": 0.25},
    "RegNet": {"embedding_size": 16, "hidden_sizes": [16, 24, 32, 40], "depths": [1] * 4, "groups_width": 8},
}  # fmt: skip
_transformers("Dinov2", "pixel_values", _IMAGE, **_PATCHED)
_transformers("Swin", "pixel_values", _IMAGE, image_size=32, patch_size=2, **_WINDOWED)
for _name, _config in _OF_IMAGES.items():
    _transformers(_name, "pixel_values", (1, 3, 64, 64), **_config)
_positional = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0}
_transformers("Wav2Vec2", "input_values", (1, 1600), mask_feature_prob=0.0, **_positional, **_WAVES)
_transformers("AST", "input_values", (1, 48, 32), max_length=48, num_mel_bins=32, **_SPECTRUM)
_PATCHES = {"num_input_channels": 3, "context_length": 48, "patch_length": 8, "patch_stride": 8, "prediction_length": 8}
for _name, _config in (
    ("PatchTST", {"d_model": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 64}),
    ("PatchTSMixer", {"d_model": 16, "num_layers": 2}),
):
    _transformers(_name, "past_values", (1, 48, 3), kind="ForPrediction", **_PATCHES, **_config)


@_named(1, 16, 48)
def transformers_whisper_encoder() -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=24,
    )
    return _Output(WhisperEncoder(config), 0, "input_features", return_dict=False)


def _is_convolutional(name: str) -> bool:
    # transformers' own have attention or mixers; the others are named where they have.
    if name.startswith("transformers_"):
        return name in ("transformers_mobilenetv1", "transformers_regnet")
    return re.search("vit|swin", name) is None


if __name__ == "__main__":
    _CONVOLUTIONAL = [name for name in NETWORKS if _is_convolutional(name)]
    _GROUPS = {
        "convolutional networks": _CONVOLUTIONAL,
        "transformers and mixers": [name for name in NETWORKS if name not in _CONVOLUTIONAL],
    }
    sys.exit(sweep.main(__file__, _GROUPS, sys.argv[1:]))
