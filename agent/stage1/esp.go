package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"spore/agent/bootinfo"
	"spore/storage/espfiles"
	"spore/storage/fat"
)

// maxNodeFile bounds the file with a node's name, in bytes.
const maxNodeFile = 256

// readESP takes from the ESP of the boot disk what it says about this machine: which node it becomes, and the node's
// bundle and an answer file, which the main system alone can judge. The ESP is untrusted, and no content of it stops the
// boot. It is read and not mounted, so that the kernel's FAT never sees it before the root is there.
func (b *boot) readESP() (string, error) {
	p, ok := b.disk.ESP(b.firmware.LoaderPartition)
	if !ok || b.disk.Disk.Name == "" {
		return "", nil
	}
	f, err := os.Open("/dev/" + b.disk.Disk.Name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fsys, err := fat.Open(io.NewSectionReader(f, p.Start, p.Size), p.Size)
	if err != nil {
		return "ignored the ESP: " + oneLine(err), nil
	}
	for _, step := range []func(*fat.FS) (string, error){b.readESPChoice, handOverChosenHere, handOverBundle, handOverAnswers} {
		text, err := step(fsys)
		if err != nil {
			return "", err
		}
		if text != "" {
			b.say(notice, "%s", text)
		}
	}
	return "", nil
}

func (b *boot) readESPChoice(fsys *fat.FS) (string, error) {
	data, err := readFile(fsys, espfiles.Node, maxNodeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	name := ""
	if err == nil {
		name, err = nodeName(data)
	}
	if err != nil {
		return "ignored the node choice of the ESP: " + oneLine(err), nil
	}
	b.info.ESPNode = name
	return "the ESP chooses node " + name + " (not authenticated)", nil
}

// handOverChosenHere leaves to the main system by whom the choice was made.
func handOverChosenHere(fsys *fat.FS) (string, error) {
	return handOver(fsys, espfiles.ChosenHere, "the note that its node was chosen at the machine", maxNodeFile, bootinfo.ChosenHere)
}

// handOverBundle leaves the node's bundle of the ESP to the main system.
func handOverBundle(fsys *fat.FS) (string, error) {
	return handOver(fsys, espfiles.Bundle, "a bundle", bootinfo.MaxDelivered, bootinfo.Delivered)
}

// handOverAnswers leaves the answer file of the ESP to the main system.
func handOverAnswers(fsys *fat.FS) (string, error) {
	return handOver(fsys, espfiles.Answers, "an answer file", bootinfo.MaxAnswers, bootinfo.Answers)
}

func handOver(fsys *fat.FS, name, what string, limit int64, to string) (string, error) {
	data, err := readFile(fsys, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "ignored " + what + " of the ESP: " + oneLine(err), nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	return "the ESP has " + what + " (not authenticated)", os.WriteFile(to, data, 0o600)
}

// readFile reads a file of at most limit bytes.
func readFile(fsys *fat.FS, name string, limit int64) ([]byte, error) {
	entries, err := fsys.List(path.Dir(name))
	if err != nil {
		return nil, err
	}
	e, ok := fat.Find(entries, path.Base(name))
	if !ok {
		return nil, fs.ErrNotExist
	}
	if e.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, e.Size, limit)
	}
	r, err := fsys.Open(e)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
