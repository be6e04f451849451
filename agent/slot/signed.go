package slot

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"

	"spore/agent/keydb"
	"spore/pki/authenticode"
)

// startsHere refuses a UKI or a boot loader that this machine's firmware would not start, and a UKI to which the TPM
// would not open what it sealed for what runs.
func (w *writer) startsHere(s source) error {
	running := w.entries.running.content
	return cmp.Or(w.loaderStarts(s), w.ukiStarts(running, s), samePCRKey(running, s))
}

// ukiStarts refuses, where the firmware asks for a signature, a UKI that it would not start, or that somebody else has
// signed than the one that runs: whether the loader then goes on with the next entry is not known of all firmware. A
// node that takes the configuration while it runs takes it before any firmware has looked.
func (w *writer) ukiStarts(running *io.SectionReader, s source) error {
	if !w.m.SecureBoot {
		return nil
	}
	have, err := w.firmwareStarts("the UKI", s.UKI)
	if err != nil {
		return err
	}
	known, err := authenticode.Signers(running, running.Size())
	if err != nil {
		return fmt.Errorf("the UKI that runs: %w", err)
	}
	return sameSigner("the UKI", have, known)
}

// loaderStarts refuses a boot loader in the same way, where it would be tried. Nothing counts its starts.
func (w *writer) loaderStarts(s source) error {
	if !w.m.SecureBoot {
		return nil
	}
	if fresh, err := w.newLoader(); err != nil || !fresh {
		return err
	}
	have, err := w.firmwareStarts("the boot loader", s.Loader)
	if err != nil {
		return err
	}
	old, err := w.loader()
	if err != nil {
		return fmt.Errorf("the ESP: %w", err)
	}
	known, err := authenticode.Signers(bytes.NewReader(old), int64(len(old)))
	if err != nil {
		return nil // It is damaged, and the new one is held to db alone.
	}
	return sameSigner("the boot loader", have, known)
}

// firmwareStarts refuses a program of the update that the firmware would not start, and returns who signed it.
func (w *writer) firmwareStarts(what string, program *io.SectionReader) ([]*x509.Certificate, error) {
	signers, err := w.m.Keys.Check(program, program.Size())
	if err == nil {
		return signers, nil
	}
	var unknown keydb.UnknownError
	switch {
	case errors.Is(err, keydb.ErrNotSigned):
		return nil, refuse("this machine has Secure Boot on, and %s of the update is not signed: push with "+
			"--secure-boot-key and --secure-boot-cert", what)
	case errors.Is(err, keydb.ErrRevoked):
		return nil, refuse("this machine has Secure Boot on, and would not start %s of the update: %v; build a newer one",
			what, err)
	case errors.As(err, &unknown):
		return nil, refuse("this machine has Secure Boot on, and would not start %s of the update: %v; sign with a key "+
			"whose certificate the machine has, or bring the new certificate to the machine first (see \"Another "+
			"key\" in docs/secure-boot.md)", what, err)
	}
	return nil, refuse("this machine has Secure Boot on, and firmware would not start %s of the update: %v", what, err)
}

// sameSigner refuses a program that nobody signed who signed the one that runs.
func sameSigner(what string, have, known []*x509.Certificate) error {
	for _, c := range have {
		if slices.ContainsFunc(known, c.Equal) {
			return nil
		}
	}
	by := "by its hash in db alone"
	if len(have) > 0 {
		by = keydb.Name(have[0])
	}
	return refuse("this machine has Secure Boot on, and %s of the update is signed by another certificate than the one "+
		"that runs (%s): sign it with the same key", what, by)
}

// samePCRKey refuses a UKI whose value of PCR 11 another key signs than that of what runs, or none: secrets that the
// TPM bound to images of that key, such as that of an encrypted /var, would be out of reach.
func samePCRKey(running io.ReaderAt, s source) error {
	want, err := pcrKey(running)
	if err != nil {
		return fmt.Errorf("the UKI that runs: %w", err)
	}
	have, err := pcrKey(s.UKI)
	if err != nil {
		return fmt.Errorf("the UKI of the update: %w", err)
	}
	if len(want) > 0 && string(have) != string(want) {
		return refuse("the UKI that runs has its value of the TPM's PCR 11 signed, and the UKI of the update not " +
			"by the same key: the TPM would not open what it sealed; push with the same --pcr-key")
	}
	return nil
}
