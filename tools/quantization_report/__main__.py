import sys

from tools.quantization_report.quantization_report import main

sys.exit(main())
