import sys

from tools.pipeline.quantization_report.quantization_report import main

sys.exit(main())
