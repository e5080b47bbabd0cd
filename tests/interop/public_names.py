"""Compares models of transformers, torchvision and timm with ours, by a file.

usage: public_names.py write FOLDER TABLE     a small model of theirs, in FOLDER
       public_names.py compare FOLDER TABLE LOGITS.safetensors EXPORT.safetensors

LOGITS: of `sluice eval` of theirs. EXPORT: of `sluice export --names TABLE`
after a turn at rate 0, which their model must take and whose tensors must be
theirs.
"""
import sys
import types

import torch
from safetensors.torch import load_file, save_file

VOCABULARY = 5
CONTEXT = 16
IMAGE = 64


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=32, n_layer=3,
        n_head=4, bos_token_id=0, eos_token_id=0))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=96,
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=0,
        eos_token_id=0, max_position_embeddings=CONTEXT))


def leave_out_operators():
    """torchvision's wheel may be for another torch, and its models need none
    of its own operators."""
    name = "torchvision._meta_registrations"
    sys.modules[name] = types.ModuleType(name)


def torchvision_resnet():
    from torchvision.models import resnet50
    return resnet50(num_classes=10)


def torchvision_vit():
    from torchvision.models import VisionTransformer
    return VisionTransformer(
        image_size=IMAGE, patch_size=16, num_layers=3, num_heads=4,
        hidden_dim=32, mlp_dim=128, num_classes=10)


def timm_vit():
    from timm.models.vision_transformer import VisionTransformer
    return VisionTransformer(
        img_size=IMAGE, patch_size=16, embed_dim=32, depth=3, num_heads=4,
        num_classes=10)


MODELS = {make.__name__: make for make in (
    gpt2, llama, torchvision_resnet, torchvision_vit, timm_vit)}


def model_of(table):
    torch.manual_seed(7)
    model = MODELS[table]()
    # No weight is as it begins, and no statistic.
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.01 * torch.randn_like(weight))
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.add_(0.1 * torch.rand_like(buffer))
    return model.eval()


def write(folder, table):
    model = model_of(table)
    save_file({"inputs": torch.randn(16, 3, IMAGE, IMAGE),
               "targets": torch.randint(10, (16,))},
              f"{folder}/images.safetensors")
    if hasattr(model, "save_pretrained"):  # in several files
        model.save_pretrained(folder, max_shard_size="40KB")
        return
    state = {name: tensor.contiguous()
             for name, tensor in model.state_dict().items()}
    save_file(state, f"{folder}/model.safetensors")


def compare(folder, table, logits_file, export_file):
    model = model_of(table)
    ours = load_file(logits_file)
    torch.set_num_threads(1)
    with torch.no_grad():
        theirs = model(ours["inputs"])
    theirs = getattr(theirs, "logits", theirs)
    gap = (theirs - ours["logits"]).abs().max().item()
    size = theirs.abs().max().item()
    assert theirs.shape == ours["logits"].shape, (theirs.shape, ours)
    assert gap < 1e-5 * max(1, size), f"{table}: logits differ by {gap}"
    exported = load_file(export_file)
    state = model.state_dict()
    for name, tensor in exported.items():
        key = name if name in state else f"transformer.{name}"
        if not key.endswith("num_batches_tracked") and "running" not in key:
            assert torch.equal(state[key], tensor), (table, name)
    left = [name for name in state
            if name not in exported and
            name.removeprefix("transformer.") not in exported and
            name != "lm_head.weight"]
    assert not left, (table, left)
    print(f"{table}: logits of up to {size:.3g} differ by {gap:.1e}, "
          f"{len(exported)} tensors came back")


def main(command, *arguments):
    leave_out_operators()
    {"write": write, "compare": compare}[command](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
