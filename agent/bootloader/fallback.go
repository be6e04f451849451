package bootloader

import (
	"fmt"

	"spore/agent/bootoption"
	"spore/storage/gpt"
)

// fallbacks are boot options behind the one that starts the machine. Firmware goes on to the next option of its order
// where one does not start, or ends with an error (UEFI 2.10, section 3.1.1); where there is no other, it waits for a
// person. The first takes the second copy of the loader, where the firmware cannot load the first copy. And a loader
// ends with an error when it cannot load a new system, each time with one try less: after three of them it starts the
// system before, and four options let it run four times.
var fallbacks = []struct{ description, file string }{
	{"Spore, second try", SystemdPath}, {"Spore, third try", DefaultPath}, {"Spore, fourth try", SystemdPath},
}

// Fallbacks gives the firmware options for the case that the one that it takes now does not start: the second copy of
// the loader, and the loader again, as often as a new system is tried. What the firmware takes first stays. esp is the
// EFI partition on a disk with sectors of sectorSize bytes, vars the directory of efivarfs.
func Fallbacks(vars string, esp gpt.Partition, sectorSize int) error {
	v := bootoption.Variables(vars)
	first, err := v.Current()
	if err != nil {
		return fmt.Errorf("it is not known which boot option the firmware takes: %w", err)
	}
	if has, err := v.Has(first); err != nil {
		return err
	} else if !has { // Nothing is added that has no place.
		return fmt.Errorf("EFI variable BootOrder does not have %s, which started the machine", bootoption.Name(first))
	}
	var numbers []uint16
	for i, f := range fallbacks {
		number, err := v.Add(fallback(i, esp, sectorSize))
		if err != nil {
			return fmt.Errorf("add the boot option %q: %w", f.description, err)
		}
		numbers = append(numbers, number)
	}
	return v.Behind(first, numbers)
}

func fallback(i int, esp gpt.Partition, sectorSize int) bootoption.Option {
	return bootoption.Option{
		Description: fallbacks[i].description, Partition: esp, SectorSize: sectorSize, File: fallbacks[i].file,
	}
}
