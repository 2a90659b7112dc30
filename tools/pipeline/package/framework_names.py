"""Lists names that models and packages can't have in the frameworks of a layout.

A model's NAME.h would hide a header NAME.h, even one in another case on file systems that ignore it, and its functions
`NAME_init()` and others could clash with a driver's. Such clashes only show when an application is compiled, and the
errors name neither model nor framework.
"""

# Headers that are included by their name only, in lower case and without `.h`.
_MBED_HEADERS = """
    analogin analogout atcmdparser blockdevice bufferedserial busin businout busout bytebuffer cachealignedbuffer
    callback can circularbuffer conditionvariable criticalsectionlock cthunk deepsleeplock device digitalin
    digitalinout digitalout dir dirhandle endpointresolver event eventflags eventqueue file filebase filehandle
    filelike filepath filesystem filesystemhandle flashiap i2c i2cslave interruptin kernel kvstore linkedlist
    localfilesystem lowpowerclock lowpowerticker lowpowertimeout lowpowertimer mail mbed mbedcrc memorypool mutex
    netsocket networkinterface noncopyable objects onfi operationlist ospi peripheralnames peripheralpins pinmap
    pinnames platform platformmutex polledqueue portin portinout portnames portout pwmout qspi queue rawcan
    realtimeclock resetreason rtos scopedlock semaphore serialbase serialwireoutput sfdp sharedptr singletonptr socket
    span spi spislave stream task taskqueue thisthread thread ticker tickerdataclock timeout timer timerevent
    transaction unbufferedserial usbcdc usbdevice usbhid usbmidi usbmouse usbmsd watchdog
"""
# Drivers and services with functions `NAME_init()`, `NAME_reset()` and the like.
_MBED_FUNCTIONS = """
    analogin analogout can crc equeue ethernet flash gpio gpio_irq hal_crc hal_sleep hal_watchdog i2c lp_ticker ospi
    port port_in port_out pwmout qspi rtc serial sleep spi spi_slave ticker trng us_ticker usb
"""
_ARDUINO_HEADERS = """
    arduino arduinoble arduinoi2s audiobuffer audioin audioout audiostream binary bledevice bridge client common
    compat cortex_handlers delay dmapool eeprom errorcodes esp ethernet firmata fs hardwarecan hardwarei2c
    hardwareserial hardwarespi hid i2s interrupts ipaddress itoa keyboard liquidcrystal macaddress main motion mouse
    pdm pins_arduino pluggableusb preferences print printable pulse reset ringbuffer rtc sam scheduler sd sercom
    server servo softwareserial sound spi startup stepper stream string syscalls tft ticker tls tone uart udp update
    usb usbapi variant wavefile wcharacter wifi wire wiring wiring_analog wiring_digital wiring_private wiring_shift
    wmath wprogram wstring
"""
# Functions, objects and macros of sketches without a prefix. NAME.hpp has a namespace of the model's name.
_ARDUINO_FUNCTIONS = """
    analog analogread analogreference analogwrite attachinterrupt bit bitclear bitread bitset bitwrite boolean byte
    change constrain default degrees detachinterrupt digital digitalread digitalwrite display external falling f high
    highbyte input input_pullup internal interrupts loop low lowbyte lsbfirst map max micros millis min msbfirst
    nointerrupts notone output pi pinmode pulsein pulseinlong radians randomseed rising serial serial1 serial2 serial3
    serialusb setup shiftin shiftout sq word yield
"""
_FREERTOS_HEADERS = """
    atomic croutine event_groups freertos freertosconfig list message_buffer portable portmacro projdefs queue semphr
    stack_macros stream_buffer task tasks timers
"""
_PICO_FUNCTIONS = """
    adc alarm_pool clock clocks critical_section datetime dma flash gpio i2c interp irq lock_core multicore mutex
    pico pio powman pwm pwm_config queue recursive_mutex resets rtc sem semaphore spi stdio stdio_uart stdio_usb sync
    timer uart usb vreg watchdog xosc
"""
_ZEPHYR_HEADERS = "arch cmsis_core devicetree device kernel kswap ksched kthread offsets pinctrl_soc soc version zephyr"
_ZEPHYR_FUNCTIONS = """
    adc atomic bt can clock_control counter dac device dma entropy flash gpio i2c i2s ipm k_mem_slab k_mutex k_pipe
    k_queue k_sem k_thread k_timer led log mpsc_pbuf net_buf net_if net_pkt pm pwm regulator ring_buf rtio sensor
    settings shell spi sys sys_heap tracing uart usb wdt
"""

_FRAMEWORKS = {
    "Arduino": (_ARDUINO_HEADERS, _ARDUINO_FUNCTIONS),
    "FreeRTOS": (_FREERTOS_HEADERS, ""),
    "Mbed OS": (_MBED_HEADERS, _MBED_FUNCTIONS),
    "the Pico SDK": ("", _PICO_FUNCTIONS),
    "Zephyr": (_ZEPHYR_HEADERS, _ZEPHYR_FUNCTIONS),
}
# The frameworks of applications for each layout. Arduino's core for some boards is based on Mbed OS.
_OF_LAYOUTS = {
    "arduino": ("Arduino", "Mbed OS", "FreeRTOS"),
    "cmake": ("Mbed OS", "the Pico SDK", "FreeRTOS"),
    "make": ("FreeRTOS",),
    "mbed": ("Mbed OS",),
    "platformio": ("Arduino", "Mbed OS", "FreeRTOS", "Zephyr"),
    "zephyr": ("Zephyr",),
}


def framework_problem(name: str, layout: str) -> str:
    """Explains the clash of a model's name with a framework of the layout; empty if there is none.

    Args:
        name: the model's name.
        layout: a key of LAYOUTS.
    """
    lower = name.lower()
    for framework in _OF_LAYOUTS[layout]:
        headers, functions = _FRAMEWORKS[framework]
        if lower in headers.split():
            return f"{name}.h would hide a header of {framework} where file systems don't tell cases apart"
        if lower in functions.split():
            return f"{framework} has functions or macros of that name"
    return ""
