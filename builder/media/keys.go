package media

import (
	"errors"
	"fmt"

	"spore/builder/image"
	"spore/builder/pcr"
	"spore/builder/secureboot"
	"spore/builder/uki"
)

// Keys sign what machines start. The zero value signs nothing.
type Keys struct {
	// Boot signs UKI and boot loader for Secure Boot.
	Boot *secureboot.Signer
	// PCR signs the value that the TPM's PCR 11 will have.
	PCR *pcr.Signer
	// Enroll has the boot loader bring keys into firmware that has none.
	Enroll *image.Enrolment
}

// uki makes the UKI. The value of PCR 11 is signed first: that signature is inside, and the one for Secure Boot covers it.
func (k Keys) uki(o uki.Options) ([]byte, error) {
	if k.PCR != nil && k.Boot == nil {
		return nil, errors.New("a key for PCR 11 needs a key for Secure Boot: without Secure Boot any program could measure the same as this image")
	}
	out, err := pcr.Build(o, k.PCR)
	if err != nil {
		return nil, err
	}
	return k.program(out)
}

// program signs a program for the firmware.
func (k Keys) program(pe []byte) ([]byte, error) {
	if k.Boot == nil {
		return pe, nil
	}
	return k.Boot.SignPE(pe)
}

// loader signs the boot loader.
func (k Keys) loader(pe []byte) ([]byte, error) {
	out, err := k.program(pe)
	if err != nil {
		return nil, fmt.Errorf("boot loader: %w", err)
	}
	return out, nil
}
