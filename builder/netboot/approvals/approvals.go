// Package approvals keeps the approvals of machines that ask for their bundles in a folder of the output folder, so that
// they outlive the server. Each is a file that has the bundle as it is handed out to everybody who asks: encrypted
// to the machine. Whoever approves writes it; the server reads.
package approvals

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spore/pki/enroll"
	"spore/storage/atomicfile"
)

// Name is that of the folder in the output folder.
const Name = "approvals"

// Bounds: files that are read, and bytes of each.
const (
	maxFiles = 4096
	maxSize  = 4 << 20
)

func file(out, fingerprint string) string { return filepath.Join(out, Name, fingerprint+".json") }

// Lock keeps another approval of the same folder waiting until unlock is called or the process ends: between a look at
// what is kept and Save.
func Lock(out string) (unlock func(), err error) {
	dir := filepath.Join(out, Name)
	if err := os.MkdirAll(dir, 0o755); err != nil { // The server has another account.
		return nil, fmt.Errorf("make the folder of the approvals: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the approvals: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the approvals in %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// Save keeps an approval: when it returns, it survives a power cut. Another one of the same node goes.
func Save(out string, a enroll.Approval) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep the approval of %s: %w", a.Claim.Node, err)
		}
	}()
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	old, _ := Load(out) // What cannot be read is no approval of this node's.
	name := file(out, a.Claim.Fingerprint())
	if err := atomicfile.WriteDurable(name, data, 0o644); err != nil { // The server has another account.
		return err
	}
	for _, o := range old {
		if o.Claim.Node == a.Claim.Node && file(out, o.Claim.Fingerprint()) != name {
			if err := os.Remove(file(out, o.Claim.Fingerprint())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Load returns what is kept; the error names files that are no approvals, besides those that are.
func Load(out string) (list []enroll.Approval, err error) {
	entries, err := os.ReadDir(filepath.Join(out, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the approvals: %w", err)
	}
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("read the approvals: %s has more than %d files", filepath.Join(out, Name), maxFiles)
	}
	for _, e := range entries {
		fingerprint, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(e.Name(), ".") {
			continue // One that is being written, or was when the power went.
		}
		a, problem := read(file(out, fingerprint))
		if problem == nil && a.Claim.Fingerprint() != fingerprint {
			problem = errors.New("it is the approval of another fingerprint")
		}
		if problem != nil {
			err = errors.Join(err, fmt.Errorf("the approval %s is left out: %w", e.Name(), problem))
			continue
		}
		list = append(list, a)
	}
	return list, err
}

func read(name string) (enroll.Approval, error) {
	f, err := os.Open(name)
	if err != nil {
		return enroll.Approval{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return enroll.Approval{}, err
	}
	return enroll.ParseApproval(data)
}

// Drop takes an approval back; it is no error when there is none.
func Drop(out, fingerprint string) error {
	// A fingerprint is typed, and must not lead out of the folder.
	if strings.ContainsAny(fingerprint, `/\`) {
		return nil
	}
	err := os.Remove(file(out, fingerprint))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("take the approval back: %w", err)
}
