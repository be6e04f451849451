// Package spare has a machine start the system before when the one that it starts each time cannot be started any
// more: its root, hash tree or cluster part on the disk is damaged, or its kernel hangs. Its entry has stayed long ago,
// so the boot loader does not count its starts, and would start it for ever.
//
// Two write one variable of the firmware, for nothing of the disk can be trusted then:
//
//  1. The agent of a system that has stayed notes which entry the machine may go back to, where `spore push --back`
//     may. At each start that comes as far as the agent it forgets what was counted.
//  2. stage1 counts a start when it begins, before it reads the root: the kernel stops at a damaged block
//     (panic_on_corruption), and nobody could count then. At the third that nobody has forgotten it has the boot loader
//     start the noted entry at the next start, once (systemd's Boot Loader Interface, LoaderEntryOneShot), and goes on
//     with this one.
//
// So the start after that of the system before takes the damaged one once more, which goes on to the one before at
// once; and one that starts after all stays. A machine that was never pushed to notes nothing, and nothing is written.
package spare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf16"

	"spore/agent/efivars"
	"spore/cluster/form"
)

// Names of variables with their vendors: ours, and that of the Boot Loader Interface.
const (
	variable = "SporeWayBack-2f0f7f0b-6a5c-4d29-9a43-c1b6b6a5d0e7"
	oneShot  = "LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

// Tries is how often a system is started that cannot be, before the one before is.
const Tries = 3

// Note is what the variable says.
type Note struct {
	// Root and Cluster are the hashes of the system that it is of.
	Root    string `json:"root"`
	Cluster string `json:"cluster"`
	// Entry is the file of the entry that may be started instead.
	Entry string `json:"entry"`
	// Failed counts the starts that began and did not come as far as the agent, up to Tries; the one that runs is among
	// them until then.
	Failed int `json:"failed,omitempty"`
}

var (
	hash  = form.New(`^[0-9a-f]{64}$`)
	entry = form.New(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}\.efi$`)
)

// ErrForm is the error for a variable that is none of ours.
var ErrForm = errors.New("it does not say which system may be started instead")

// parse reads the content of the variable.
func parse(data []byte) (Note, error) {
	var n Note
	if err := json.Unmarshal(data, &n); err != nil {
		return Note{}, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if !hash.MatchString(n.Root) || !hash.MatchString(n.Cluster) || !entry.MatchString(n.Entry) || n.Failed < 0 || n.Failed > Tries {
		return Note{}, ErrForm
	}
	return n, nil
}

// Is tells whether it is of a root and a cluster part.
func (n Note) Is(root, cluster string) bool {
	return n.Root != "" && strings.EqualFold(n.Root, root) && strings.EqualFold(n.Cluster, cluster)
}

// Read reads the note; it is empty where there is none. vars is the directory of efivarfs.
func Read(vars string) (Note, error) {
	data, err := efivars.Read(vars, variable)
	if errors.Is(err, fs.ErrNotExist) {
		return Note{}, nil
	}
	if err != nil {
		return Note{}, err
	}
	n, err := parse(data)
	if err != nil {
		return Note{}, fmt.Errorf("EFI variable %s: %w", variable, err)
	}
	return n, nil
}

// Keep notes which entry may be started instead of a system that runs, as the name of its file has it. Nothing is
// written, and fresh is false, where the firmware has that already.
func Keep(vars, root, cluster, file string) (fresh bool, err error) {
	want := Note{Root: strings.ToLower(root), Cluster: strings.ToLower(cluster), Entry: strings.ToLower(file)}
	if have, err := Read(vars); err == nil && have == want {
		return false, nil
	}
	return true, write(vars, want)
}

func write(vars string, n Note) error {
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("internal error: note of a way back: %w", err)
	}
	if _, err := parse(data); err != nil {
		return fmt.Errorf("note %s: %w", data, err)
	}
	return efivars.Write(vars, variable, data)
}

// Started forgets the failures of a system that runs, and takes back what they led to. Nothing is written where there
// are none; what cannot be read has none.
func Started(vars, root, cluster string) error {
	n, err := Read(vars)
	if err != nil || !n.Is(root, cluster) || n.Failed == 0 {
		return nil
	}
	failed := n.Failed
	n.Failed = 0
	if err := write(vars, n); err != nil || failed < Tries {
		return err
	}
	// Another one's is left alone, such as that of systemctl reboot --boot-loader-entry=.
	if told, err := efivars.Read(vars, oneShot); err != nil || !bytes.Equal(told, loaderText(n.Entry)) {
		return nil
	}
	return efivars.Remove(vars, oneShot)
}

// Drop removes the note of a system that runs; one of another system, or one that cannot be read, stays with stage1.
func Drop(vars, root, cluster string) error {
	n, err := Read(vars)
	if err != nil || !n.Is(root, cluster) {
		return err
	}
	return efivars.Remove(vars, variable)
}

// Begin counts a start of a system that begins. before is how many before it failed, one after the other, up to Tries;
// next is the entry that the boot loader starts next instead where this one fails, too, and empty where it starts the
// same system again.
func Begin(vars, root, cluster string) (before int, next string, err error) {
	n, err := Read(vars)
	if err != nil || !n.Is(root, cluster) {
		return 0, "", err
	}
	before = n.Failed
	if n.Failed < Tries {
		n.Failed++
		if err := write(vars, n); err != nil {
			return before, "", err
		}
	}
	if n.Failed < Tries {
		return before, "", nil
	}
	return before, n.Entry, efivars.Write(vars, oneShot, loaderText(n.Entry))
}

// loaderText is UTF-16 with a zero at its end, as the boot loader reads it.
func loaderText(text string) []byte {
	var data []byte
	for _, c := range append(utf16.Encode([]rune(text)), 0) {
		data = append(data, byte(c), byte(c>>8))
	}
	return data
}
