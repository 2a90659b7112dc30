"""Torch Fusion's public rules.

    load("@torch_fusion//rules:defs.bzl", "torch_program", "torch_firmware")
"""

load(":board.bzl", _board = "board")
load(":board_program.bzl", _board_program = "board_program")
load(":board_support.bzl", _board_support = "board_support")
load(":cmake_firmware.bzl", _cmake_firmware = "cmake_firmware")
load(":cmake_firmware_test.bzl", _cmake_firmware_test = "cmake_firmware_test")
load(":ethos_u.bzl", _ethos_u = "ethos_u", _npu_port = "npu_port")
load(":exploration_test.bzl", _exploration_test = "exploration_test")
load(":firmware_benchmark.bzl", _firmware_benchmark = "firmware_benchmark")
load(":firmware_budget_test.bzl", _firmware_budget_test = "firmware_budget_test")
load(":firmware_emulate.bzl", _firmware_emulate = "firmware_emulate")
load(":firmware_flash.bzl", _firmware_flash = "firmware_flash")
load(":firmware_image.bzl", _firmware_image = "firmware_image")
load(":firmware_profile.bzl", _firmware_profile = "firmware_profile")
load(":firmware_prove.bzl", _firmware_prove = "firmware_prove")
load(":firmware_test.bzl", _firmware_test = "firmware_test")
load(":kernel_registry.bzl", _kernel_registry = "kernel_registry")
load(":mbed_firmware.bzl", _mbed_firmware = "mbed_firmware")
load(":model_page.bzl", _model_page = "model_page")
load(":program_data.bzl", _program_data = "program_data")
load(":program_hashes.bzl", _program_hashes = "program_hashes")
load(
    ":providers.bzl",
    _BoardInfo = "BoardInfo",
    _CompiledModelInfo = "CompiledModelInfo",
    _FirmwareInfo = "FirmwareInfo",
    _KernelRegistryInfo = "KernelRegistryInfo",
    _MemoryPlanInfo = "MemoryPlanInfo",
    _NpuInfo = "NpuInfo",
    _ProgramDataInfo = "ProgramDataInfo",
    _TorchBackendInfo = "TorchBackendInfo",
    _TorchOperatorInfo = "TorchOperatorInfo",
    _TorchPackageInfo = "TorchPackageInfo",
    _TorchProgramInfo = "TorchProgramInfo",
)
load(":pte_program.bzl", _pte_program = "pte_program")
load(":quantization.bzl", _quantization = "quantization")
load(":quantization_report.bzl", _quantization_report = "quantization_report")
load(":reproducibility_test.bzl", _reproducibility_test = "reproducibility_test")
load(":signed_program.bzl", _signed_program = "signed_program")
load(":size_report.bzl", _size_report = "size_report")
load(":torch_backend.bzl", _torch_backend = "torch_backend")
load(":torch_cpp_library.bzl", _torch_cpp_library = "torch_cpp_library")
load(":torch_firmware.bzl", _torch_firmware = "torch_firmware")
load(":torch_operator.bzl", _torch_operator = "torch_operator")
load(":torch_package.bzl", _torch_package = "torch_package")
load(":torch_program.bzl", _torch_program = "torch_program")
load(":updatable_firmware.bzl", _updatable_firmware = "updatable_firmware")
load(":update_settings.bzl", _update_settings = "update_settings")
load(":vgf_test.bzl", _vgf_test = "vgf_test")

board = _board
board_program = _board_program
board_support = _board_support
cmake_firmware = _cmake_firmware
cmake_firmware_test = _cmake_firmware_test
ethos_u = _ethos_u
exploration_test = _exploration_test
firmware_benchmark = _firmware_benchmark
firmware_budget_test = _firmware_budget_test
firmware_emulate = _firmware_emulate
firmware_flash = _firmware_flash
firmware_image = _firmware_image
firmware_profile = _firmware_profile
firmware_prove = _firmware_prove
firmware_test = _firmware_test
kernel_registry = _kernel_registry
mbed_firmware = _mbed_firmware
model_page = _model_page
npu_port = _npu_port
program_data = _program_data
program_hashes = _program_hashes
pte_program = _pte_program
quantization = _quantization
quantization_report = _quantization_report
reproducibility_test = _reproducibility_test
signed_program = _signed_program
size_report = _size_report
torch_backend = _torch_backend
torch_cpp_library = _torch_cpp_library
torch_firmware = _torch_firmware
torch_operator = _torch_operator
torch_package = _torch_package
torch_program = _torch_program
updatable_firmware = _updatable_firmware
update_settings = _update_settings
vgf_test = _vgf_test

BoardInfo = _BoardInfo
CompiledModelInfo = _CompiledModelInfo
FirmwareInfo = _FirmwareInfo
KernelRegistryInfo = _KernelRegistryInfo
MemoryPlanInfo = _MemoryPlanInfo
NpuInfo = _NpuInfo
ProgramDataInfo = _ProgramDataInfo
TorchBackendInfo = _TorchBackendInfo
TorchOperatorInfo = _TorchOperatorInfo
TorchPackageInfo = _TorchPackageInfo
TorchProgramInfo = _TorchProgramInfo
