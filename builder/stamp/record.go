package stamp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Record says what files were made of.
type Record struct {
	// Inputs is a hash over all that decides about the files.
	Inputs string `json:"inputs"`
	// Result is what the maker wants to know again.
	Result json.RawMessage `json:"result"`
	// Boot is the id of the boot of this machine in which they were made. What was not on the disk when a machine lost its
	// power can be holes in a file of the right length and times.
	Boot string `json:"boot"`
	// Files are the files by their names.
	Files map[string]Stamp `json:"files"`
}

// recordName is the note of a folder of files.
func recordName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return "made-" + hex.EncodeToString(sum[:16]), nil
}

// bootID is the kernel's random id of this boot (proc_sys_kernel(5)), or empty where there is none.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Made returns what was recorded when the files of a folder were made of these inputs. ok is false when they were made of
// others, when one of the files is no longer what it was then, or when the machine was started anew since.
func Made(notes Notes, dir, inputs string) (result json.RawMessage, ok bool, err error) {
	name, err := recordName(dir)
	if err != nil {
		return nil, false, err
	}
	data, err := notes.ReadNote(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the inputs of %s: %w", dir, err)
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.Inputs != inputs || r.Boot != bootID() || len(r.Files) == 0 {
		return nil, false, nil
	}
	for file, was := range r.Files {
		if is, err := Of(file); err != nil || is != was {
			return nil, false, nil
		}
	}
	return r.Result, true, nil
}

// Remember records what the files of a folder were just made of. It waits until a later change shows in their times. Where a
// file has no stamp, nothing is recorded.
func Remember(notes Notes, dir, inputs string, result any, files []string) error {
	name, err := recordName(dir)
	if err != nil {
		return err
	}
	r := Record{Inputs: inputs, Boot: bootID(), Files: map[string]Stamp{}}
	if r.Result, err = json.Marshal(result); err != nil {
		return err
	}
	time.Sleep(Tick)
	for _, file := range files {
		r.Files[file], err = Of(file)
		if errors.Is(err, ErrNone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("record the inputs of %s: %w", dir, err)
		}
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return notes.WriteNote(name, data)
}
