package install

import (
	"spore/agent/bootoption"
	"spore/storage/gpt"
)

// Register makes the boot entry of a disk the first of the firmware's boot order: an entry with the same path is used
// again. With next, the firmware also takes it for the very next start, since some firmware puts its own order back at
// each start. vars is the directory of efivarfs. It returns the entry's name, such as Boot0003.
func Register(vars string, description string, esp gpt.Partition, sectorSize int, next bool) (string, error) {
	v := bootoption.Variables(vars)
	number, err := v.Add(bootoption.Option{
		Description: description, Partition: esp, SectorSize: sectorSize, File: LoaderPath,
	})
	if err == nil {
		err = v.First(number)
	}
	if err == nil && next {
		err = v.Next(number)
	}
	if err != nil {
		return "", err
	}
	return bootoption.Name(number), nil
}
