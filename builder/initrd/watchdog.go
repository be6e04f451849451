package initrd

// watchdogDir is where, below the module directory, the indexes of the drivers of watchdogs are. They are apart since
// stage1 loads them whatever the way to its disk is, and those of the mainboard's bridges only where there is no other.
const watchdogDir = "watchdog"

// watchdogs are the drivers of hardware watchdogs that a device asks for by its alias, and of the bridges that make
// such a device: lpc_ich, i2c_i801 and intel_pmc_bxt that of iTCO_wdt. Left out are those behind a Super I/O chip,
// which only a person can name (w83627hf_wdt, it87_wdt, …), those that the kernel gives no /dev/watchdog0 (nv_tco,
// pcwd_pci, wdt_pci), mei_wdt, which waits two minutes at least, and softdog: the kernel's own timer ends nothing that
// stops the kernel, and a systemd that crashes restarts the machine itself.
var watchdogs = []string{
	// virtual machines
	"i6300esb",
	// what the firmware describes (ACPI, table WDAT)
	"wdat_wdt",
	// servers
	"hpwdt", "sp5100_tco",
	// mainboards for processors of Intel
	"iTCO_wdt", "lpc_ich", "i2c_i801", "intel_pmc_bxt",
}
