"""Names tensors and weights in generated C++ after the modules that the user wrote."""

import re
from collections.abc import Sequence

# The name of the constant of a packed int8 layer.
PACKED = "packed"

# The modules' names of an operator's constant arguments, by position.
_ROLES = {
    "aten::linear": {1: "weight", 2: "bias"},
    "aten::convolution": {1: "weight", 2: "bias"},
    "aten::addmm": {0: "bias", 2: "weight"},
    "aten::mm": {1: "weight"},
    "aten::embedding": {0: "weight"},
    "aten::native_layer_norm": {2: "weight", 3: "bias"},
    "aten::native_group_norm": {1: "weight", 2: "bias"},
    "cortex_m::quantized_activation": {1: "table"},
    "torch_fusion::convolution": {1: PACKED},
    "torch_fusion::depthwise_convolution": {1: PACKED},
    "torch_fusion::grouped_convolution": {1: PACKED},
    "torch_fusion::linear": {1: PACKED},
    "torch_fusion::linear_int4": {1: PACKED},
    "torch_fusion::linear_rows": {1: PACKED},
    "torch_fusion::linear_table": {1: PACKED, 3: "table"},
    "torch_fusion::linear_transposed": {1: PACKED},
    "torch_fusion::pointwise_int4": {1: PACKED},
    "torch_fusion::gru": {2: "weight_ih", 3: "weight_hh", 4: "bias"},
    "torch_fusion::lstm": {3: "weight_ih", 4: "weight_hh", 5: "bias"},
    "torch_fusion::quantized_group_norm": {1: "weight", 2: "bias"},
    "torch_fusion::quantized_gru": {2: "weights", 3: "factors"},
    "torch_fusion::quantized_layer_norm": {1: "weight", 2: "bias"},
    "torch_fusion::quantized_lstm": {3: "weights", 4: "factors"},
    "torch_fusion::quantized_masked_softmax": {1: "exponentials", 2: "mask"},
    "torch_fusion::quantized_prelu": {1: "weight"},
    "torch_fusion::quantized_softmax": {1: "exponentials"},
}

# Floating-point recurrent layers.
RECURRENT = ("torch_fusion::gru", "torch_fusion::lstm")

# int8 recurrent layers, whose constants combine several parameters: the index of the argument `reverse`.
QUANTIZED_RECURRENT = {"torch_fusion::quantized_gru": 9, "torch_fusion::quantized_lstm": 10}

# The names of an operator's results, by position; all other operators return their last argument.
_NORM = ("", "mean", "rstd")
_RESULTS = {
    "aten::_native_batch_norm_legit_no_training": dict(enumerate(_NORM, 7)),
    "aten::max": {3: "", 4: "indices"},
    "aten::max_pool2d_with_indices": {6: "", 7: "indices"},
    "aten::min": {3: "", 4: "indices"},
    "aten::native_dropout": {3: "", 4: "mask"},
    "aten::native_group_norm": dict(enumerate(_NORM, 8)),
    "aten::native_layer_norm": dict(enumerate(_NORM, 5)),
    "aten::topk": {5: "", 6: "indices"},
    "aten::var_mean": {4: "", 5: "mean"},
    "torch_fusion::filtered_spectrogram": {12: "", 13: "work"},
    "torch_fusion::gru": {7: "", 8: "hidden", 9: "gates"},
    "torch_fusion::lstm": {8: "", 9: "hidden", 10: "cell", 11: "gates"},
    "torch_fusion::quantized_gru": {11: "", 12: "hidden", 13: "work"},
    "torch_fusion::quantized_lstm": {12: "", 13: "hidden", 14: "cell", 15: "work"},
    "torch_fusion::spectrogram": {11: "", 12: "work"},
    "torch_fusion::stft": {9: "", 10: "work"},
}


# Names that a model can't have: NAME.h would hide another header, or NAME.hpp's `namespace NAME` would be invalid.
_HEADERS = """
    alloca assert complex ctype dirent endian errno fcntl features fenv float getopt inttypes iso646 limits locale
    malloc math memory poll pthread regex sched search semaphore setjmp signal stdalign stdarg stdatomic stdbool
    stddef stdint stdio stdlib stdnoreturn string strings termios tgmath threads time torch_fusion uchar unistd
    utime wait wchar wctype
"""
_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long main mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast std struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq
"""
# Macros of headers of the C library, and of compilers with GNU's extensions.
_MACROS = "EOF NULL linux stderr stdin stdout unix"

# Names that C++ has outside of namespaces, if its own headers or an application include those of C and POSIX.
# Mathematical functions have variants that end in f and l.
_MATHEMATICS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim
    floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb
    lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn
    significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn
"""
_OTHERS = """
    abort abs access acct adjtime alarm aligned_alloc asctime at_quick_exit atexit atof atoi atol atoll bcmp bcopy brk
    bsearch btowc bzero calloc chdir chmod chown chroot clearerr clock close confstr creat crypt ctermid ctime daemon
    daylight difftime div dprintf drand48 dup dup2 environ erand48 execl execv execve execvp exit fchdir fchmod fchown
    fclose fcntl fdopen feof ferror fflush ffs fgetc fgetpos fgets fileno finite flock fopen fork fprintf fputc fputs
    fread free freopen fscanf fseek fsetpos fstat fsync ftell ftruncate fwrite getc getchar getcwd getenv getopt
    getpid gets getuid getw gmtime index initstate isalnum isalpha isascii isatty isblank iscntrl isdigit isgraph
    isinf islower isnan isprint ispunct isspace isupper iswalpha isxdigit itoa kill labs lconv ldiv link linkat llabs
    lldiv localeconv localtime lockf longjmp lrand48 lseek lstat malloc mblen mbstowcs mbtowc memccpy memchr memcmp
    memcpy memmove memset mkdir mkfifo mknod mkstemp mktemp mktime mrand48 nanosleep nice open openat optarg opterr
    optind optopt pathconf pause pclose perror pipe popen pread printf profil pselect putc putchar putenv puts putw
    pwrite qsort quick_exit raise rand random read readlink realloc realpath remove rename rewind rindex rmdir sbrk
    scanf seed48 select setbuf setenv setlocale setstate setvbuf sigaction siginterrupt signgam sigstack sigval sleep
    snprintf sprintf srand srand48 srandom sscanf stat stpcpy strcasecmp strcat strchr strcmp strcoll strcpy strcspn
    strdup strerror strftime strlen strncat strncmp strncpy strndup strnlen strpbrk strrchr strsep strspn strstr
    strtod strtof strtok strtol strtold strtoll strtoul strtoull strxfrm symlink sync syscall sysconf system tempnam
    timespec timeval timezone tm tmpfile tmpnam toascii tolower toupper truncate ttyname tzname tzset ualarm uint
    ulong umask ungetc unlink unsetenv ushort usleep utimes vfork vprintf vscanf vsnprintf vsprintf wcscat wcschr
    wcscmp wcscpy wcslen wcsstr wcstod wcstol wctob wctomb wctrans wmemchr wmemcpy wmemset wprintf write wscanf
"""


def cpp_namespace(name: str) -> str:
    """Returns the namespace of NAME.hpp: NAME, unless that is a function, variable or type of the C library."""
    is_mathematics = name in _MATHEMATICS.split() or (name[-1:] in "fl" and name[:-1] in _MATHEMATICS.split())
    return f"{name}_model" if is_mathematics or name in _OTHERS.split() else name


def name_problem(name: str) -> str:
    """Explains why a model can't have a name; empty if it can."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return "is no C identifier; use letters, digits and underscores"
    other = "set program_name of the torch_program, or library_name of the torch_cpp_library, to another"
    # File systems may ignore case.
    if name.lower() in _HEADERS.split():
        return f"is that of the header {name.lower()}.h, which the model's own would hide; {other}"
    if name in _MACROS.split():
        return f"is a macro of the C library or the compiler; {other}"
    return f"is a word of C++; {other}" if name in _KEYWORDS.split() else ""


class Names:
    """Makes identifiers unique."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, wanted: str) -> str:
        """Returns the wanted identifier, with a number appended if it is taken."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name


def module_of(origin: str) -> str:
    """Returns the path of the module in an origin of the manifest, `path (Class) at file:line`, or an empty string."""
    match = re.match(r"(\S+) \(", origin)
    return match[1] if match else ""


def snake(text: str) -> str:
    """Converts a module's path or an operator's name to a C identifier."""
    identifier = re.sub(r"\W+", "_", text).strip("_") or "value"
    return f"layer_{identifier}" if identifier[0].isdigit() else identifier


def camel(text: str) -> str:
    """Converts the same to a part of a constant's name."""
    return "".join(part[:1].upper() + part[1:] for part in snake(text).split("_"))


def is_role(operator: str, position: int) -> bool:
    """Whether modules have a name for a constant argument of an operator."""
    return position in _ROLES.get(operator, {})


def role_of(operator: str, position: int, positions: Sequence[int]) -> str:
    """Returns the name of a constant argument of an operator.

    Args:
        positions: the positions of all its constant tensors.
    """
    known = _ROLES.get(operator, {}).get(position)
    if known:
        return known
    return "constant" if len(positions) == 1 else f"constant_{positions.index(position)}"


def results_of(operator: str, count: int) -> dict[int, str]:
    """Returns the positions and names of a call's results; the main result has an empty name.

    Args:
        count: the number of the call's arguments.
    """
    found = _RESULTS.get(operator.partition(".")[0], {})
    # An overload with one result, such as max.unary_out, has fewer arguments.
    return found if found and max(found) < count else {count - 1: ""}


def parameter_name(path: str) -> str:
    """Returns a C identifier for a parameter or buffer of the module, such as `features.0.weight`.

    Those of the outermost module get a prefix, as they could have the names of functions.
    """
    return snake(path if "." in path else f"model.{path}")


def operator_base(operator: str) -> str:
    """Returns an operator's name without its namespace and overload."""
    return operator.partition("::")[2].partition(".")[0].strip("_")
