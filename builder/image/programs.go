package image

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"spore/builder/pcr"
	"spore/builder/uki"
	"spore/pki/authenticode"
	"spore/storage/fat"
)

// Program is a program for the firmware on the ESP.
type Program struct {
	Path string `json:"path"`
	// Signatures are those for Secure Boot, each checked against the content.
	Signatures []authenticode.Signature `json:"signatures,omitempty"`
	// PCR11 is what the TPM's PCR 11 will be; nil for what is no unified kernel image.
	PCR11 *pcr.Value `json:"pcr11,omitempty"`
	// PCR11Running is what it will be on the running machine.
	PCR11Running *pcr.Value `json:"pcr11Running,omitempty"`
	// PCRSignatures are the signatures of that, by the fingerprints of their keys.
	PCRSignatures []pcr.Signed `json:"pcrSignatures,omitempty"`
	// Problem says what could not be read.
	Problem string `json:"problem,omitempty"`
}

// maxPrograms bounds what is listed.
const maxPrograms = 2 * maxUKIs

// Programs reads all programs on the ESP of an image that Inspect has taken apart. Unlike Inspect it reads them whole.
func (i *Info) Programs(r io.ReaderAt) ([]Program, error) {
	esp := i.partition(TypeESP, "")
	if esp == nil {
		return nil, errors.New("inspect programs: the image has no EFI system partition")
	}
	f, err := fat.Open(io.NewSectionReader(r, esp.Offset, esp.Size), esp.Size)
	if err != nil {
		return nil, fmt.Errorf("inspect programs: %w", err)
	}
	files, err := f.Walk()
	if err != nil {
		return nil, fmt.Errorf("inspect programs: %w", err)
	}
	var out []Program
	for _, file := range files {
		if !strings.HasSuffix(strings.ToLower(file.Path), ".efi") {
			continue
		}
		if len(out) == maxPrograms {
			return nil, fmt.Errorf("inspect programs: there are more than %d", maxPrograms)
		}
		out = append(out, inspectProgram(file.Path, file.Content, file.Size))
	}
	return out, nil
}

// KernelHashes are the hashes by which firmware knows the unified kernel images on the ESP. The boot loader, which
// other images have too, is not among them.
func (i *Info) KernelHashes(r io.ReaderAt) ([]authenticode.Hash, error) {
	esp := i.partition(TypeESP, "")
	if esp == nil || len(i.UKIs) == 0 {
		return nil, errors.New("it has no unified kernel image; name spore.img, spore.iso or spore.efi of a build's folder")
	}
	f, err := fat.Open(io.NewSectionReader(r, esp.Offset, esp.Size), esp.Size)
	if err != nil {
		return nil, err
	}
	entries, err := f.List(ukiDir)
	if err != nil {
		return nil, err
	}
	var out []authenticode.Hash
	for _, u := range i.UKIs {
		e, _ := fat.Find(entries, path.Base(u.Path))
		content, err := f.Open(e)
		if err != nil {
			return nil, err
		}
		h, err := authenticode.HashOf(content, e.Size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.Path, err)
		}
		out = append(out, h)
	}
	return out, nil
}

func inspectProgram(name string, r io.ReaderAt, size int64) Program {
	p := Program{Path: name}
	var err error
	if p.Signatures, err = authenticode.Signatures(r, size); err != nil {
		p.Problem = err.Error()
		return p
	}
	if _, err := uki.Inspect(r); err != nil {
		return p // another kind of program
	}
	v, err := pcr.Predict(r)
	if err == nil {
		running := v.Enter(pcr.StateOpen)
		p.PCR11, p.PCR11Running = &v, &running
		p.PCRSignatures, err = pcr.ReadSignatures(r)
	}
	if err != nil {
		p.Problem = err.Error()
	}
	return p
}
