"""Providers that carry the artifacts of the pipeline from one rule to the next."""

BoardInfo = provider(
    doc = "A board, from which its linker script, memory check, flash command and emulator derive.",
    fields = {
        "name": "str: the board's name, that of its folder and target.",
        "core": "str: the core as the export and GCC spell it, such as `cortex-m4`.",
        "description": "File: board.json, the whole definition as the Python tools read it.",
        "linker_script": "File: the linker script generated from the memory map.",
        "emulated": "bool: whether QEMU emulates the board, so that tests can run on it.",
        "arenas": "dict: region -> (description, linker_script) of the board with the memory of models there.",
        "uf2_family": "str: family ID of the chip's UF2 boot loader, empty without one.",
        "simulated": "bool: whether //boardsim simulates the board, so that tests can run on it.",
        "clock_hz": "int: core clock after start-up.",
        "npu": "dict: the NPU as `ethos_u()` describes it, None without one.",
        "takes_updates": "bool: whether it has a flash_driver, so that images may have `update_settings`.",
        "flash_algorithm": "File: code with which pyOCD programs the board's flash, None where pyOCD has its own.",
    },
)

UpdateSettingsInfo = provider(
    doc = "The updates that an image accepts, which its board's flash_driver writes.",
    fields = {},
)

TorchOperatorInfo = provider(
    doc = "A user's own operator.",
    fields = {
        "operator": "str: its name, `namespace::name`.",
        "module": "File: the Python file that registers it with torch.library.",
        "description": "File: its kernel, as in kernels/*/operators.yaml.",
        "sources": "list of File: the kernel's sources.",
        "headers": "list of File: the kernel's headers.",
        "root": "str: the root of their repository, from which they are included; empty for the main one.",
    },
)

TorchBackendInfo = provider(
    doc = "An ExecuTorch backend.",
    fields = {
        "id": "str: its name in programs.",
        "header": "str: the header that declares it.",
        "object": "str: the C++ object.",
        "method_arena_size": "int: bytes that init() takes of the method allocator.",
        "temp_arena_size": "int: bytes that execute() takes of the temporary allocator.",
    },
)

NpuInfo = provider(
    doc = "The NPU of a board.",
    fields = {
        "accelerator": "str: its configuration, such as `ethos-u55-128`; empty for none.",
        "device": "File: C++ source that tells the driver where it is; None for none.",
        "problem": "str: why there is no `device`.",
        "values": "dict: the arguments of `ethos_u()`; None for none.",
        "description": "File: the same as JSON; None for none.",
    },
)

TorchProgramInfo = provider(
    doc = "A PyTorch module exported to an ExecuTorch program.",
    fields = {
        "name": "str: the program's name, a C identifier; headers and symbols derive from it.",
        "program": "File: the .pte.",
        "manifest": "File: manifest.json: operators, dtypes, tensors, memory plan, versions.",
        "golden": "File: .npz with inputs and the eager module's outputs, and labels if the model has an evaluation set.",
        "report": "File: .json: what quantization made of each layer; None if the program is not quantized.",
        "npu_report": "File: NAME.npu.json: what an NPU computes of it, by its compiler's estimates; None without one.",
        "model": "File: the model file, or the program that was imported.",
        "weights": "File: the trained weights, None if the model is not trained in the build.",
        "core": "str: the core that the program was lowered for, or `portable` where it runs on any.",
        "operators": "list of TorchOperatorInfo: operators of the user's own that it may use.",
        "method": "str: the method that manifest and golden are of.",
        "methods": "list of TorchProgramInfo: the program's further methods, each with a name, manifest and golden of its own.",
        "accelerator": "str: the configuration of the NPU that parts of the program are compiled for; empty for none.",
        "memory": "str: `memory` of the torch_program.",
    },
)

ProgramDataInfo = provider(
    doc = "A program embedded for the linker.",
    fields = {
        "header": "File: NAME_pte.h: the symbol, sizes and arena sizes as constants.",
        "source": "File: NAME_pte.S: includes the program's bytes by .incbin.",
        "program": "File: the .pte.",
        "plan": "File: plan.json, see MemoryPlanInfo.",
    },
)

MemoryPlanInfo = provider(
    doc = "Arena sizes of a program on one core, exact to the byte.",
    fields = {
        "plan": "File: plan.json: `method`, `planned`, `temp` in bytes, and counts of operators, values and instructions.",
        "core": "str: the core planned for.",
    },
)

CompiledModelInfo = provider(
    doc = "A program that was compiled to C++.",
    fields = {
        "name": "str: a C identifier, prefix of its functions, and its C++ namespace.",
        "core": "str: the core that it is for, as the tools spell it, or `host`.",
        "header": "File: NAME.h, for C and C++.",
        "cpp_header": "File: NAME.hpp, for C++.",
        "source": "File: NAME.cpp.",
        "description": "File: NAME_pte.h: dtypes and shapes of inputs and outputs, for the application of an image.",
        "example": "File: NAME_pte.S: an example of both.",
        "plan": "File: NAME.plan.json: the memory that an instance takes.",
    },
)

TorchPackageInfo = provider(
    doc = "Models packed for another build system.",
    fields = {
        "name": "str: the package's name.",
        "layout": "str: the build system's, as torch_package has it.",
        "folder": "File: a folder that the build system takes: the package, or where it has sources for several cores these before they were measured.",
        "archives": "list of str: what it has instead of sources, by core and float ABI, such as `cortex_m4-softfp`; empty: sources.",
    },
)

KernelRegistryInfo = provider(
    doc = "The generated table of kernels: exactly the operators and dtypes that the programs use.",
    fields = {
        "source": "File: registry.cpp.",
    },
)

BoardBinaryInfo = provider(
    doc = "An image without a program of its own, linked for a board.",
    fields = {
        "board": "BoardInfo of the board.",
        "elf": "File: the image.",
    },
)

FirmwareInfo = provider(
    doc = "A linked firmware image and its intermediate files.",
    fields = {
        "name": "str: the image's name.",
        "board": "BoardInfo of the board that the image is for.",
        "program": "TorchProgramInfo of the program in it, with several of the first; None of an image that cmake_firmware made.",
        "plan": "File: plan.json of the program on the board's core; None without a program.",
        "models": "list of struct(program = TorchProgramInfo of a method, plan = File): of an image with several, those that a host chooses from by their names; empty where there is nothing to choose.",
        "memories": "list of str: the memories of the board over which its arena is split, the fastest first; empty if it isn't.",
        "elf": "File: the ELF image with debug information.",
        "bin": "File: raw bytes of the flash contents.",
        "hex": "File: the same as Intel HEX.",
        "uf2": "File: the same for a UF2 boot loader; None where the board has none.",
        "map": "File: the linker's map.",
        "report_text": "File: flash and RAM by part, against the board's limits.",
        "report_json": "File: the same for programs.",
        "console": "str: `on` or `off`.",
    },
)
