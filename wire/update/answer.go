package update

import (
	"fmt"
	"strings"
)

// MaxAsked is how many objects a node asks for at once.
const MaxAsked = 1000

// Lack is what a node needs before it can start an update.
type Lack struct {
	// Objects are hashes of objects, at most MaxAsked of them, in the order in which the node can use them.
	Objects []string `json:"objects"`
	// Count and Bytes are of all that is missing as far as is known. Without its indexes a node knows of those alone.
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// Change is what an update makes different on a node.
type Change struct {
	// Root and UKI say that they are other ones than those that run.
	Root bool `json:"root,omitempty"`
	UKI  bool `json:"uki,omitempty"`
	// Loader says that it brings another boot loader, which is tried once its system has shown that it stays.
	Loader bool `json:"loader,omitempty"`
	// From and To are the versions of the services that keep data, before and after.
	From map[string]string `json:"from,omitempty"`
	To   map[string]string `json:"to,omitempty"`
	// Risks are what a person should know before, such as a device without a driver in the new kernel.
	Risks []string `json:"risks,omitempty"`
	// Manifests has, in a dry run of a master, the objects of manifests/ of the configuration that runs, by their names: a
	// hash of each (facts.Sums).
	Manifests map[string]string `json:"manifests,omitempty"`
	// Kept has, in a dry run of a master, objects that stay when the configuration does not have them any more, and
	// definitions, by their names.
	Kept map[string]Kept `json:"kept,omitempty"`
	// MoreKept says that Kept has not all objects that stay: of one that it does not name, it is not known whether it
	// goes.
	MoreKept bool `json:"moreKept,omitempty"`
	// WayBack says why the node can not go back once the update has run; empty when it can.
	WayBack string `json:"wayBack,omitempty"`
}

// Kept is what a master knows of an object besides its name and hash.
type Kept struct {
	// Why says why it stays, behind its name: "says spore/prune: never"; empty for what goes.
	Why string `json:"why,omitempty"`
	// Defines is the kind that it is the definition of, such as Line.plant.example; empty for what is none.
	Defines string `json:"defines,omitempty"`
}

// Answer is what became of a message.
type Answer struct {
	Node        string `json:"node,omitempty"`
	Serial      uint64 `json:"serial,omitempty"`
	ClusterHash string `json:"clusterHash,omitempty"`
	// Lacks is set while objects are missing: nothing of the update starts yet.
	Lacks *Lack `json:"lacks,omitempty"`
	// Change says what the update makes different.
	Change *Change `json:"change,omitempty"`
	// Entry is the new image on the ESP.
	Entry string `json:"entry,omitempty"`
	// Unchanged says that the node runs this already, or has it staged; nothing was written.
	Unchanged bool `json:"unchanged,omitempty"`
	// Note says how the medium was read back where that was not past the host's memory.
	Note string `json:"note,omitempty"`
	// Live says that the running node took it at once, and Restarted which units were restarted for that.
	Live      bool     `json:"live,omitempty"`
	Restarted []string `json:"restarted,omitempty"`
	// Waits says what has to wait for the next start, and why.
	Waits []string `json:"waits,omitempty"`
	// Reboot says that the machine restarts now.
	Reboot bool `json:"reboot,omitempty"`
	// Back says that the node was asked for the system before, which Entry starts; Serial is that of what it gives up.
	Back bool `json:"back,omitempty"`
	// DryRun says that nothing was written, as was asked for.
	DryRun bool `json:"dryRun,omitempty"`
	// Error says why nothing became of it.
	Error string `json:"error,omitempty"`
}

// Text is the answer for people.
func (a Answer) Text() string {
	if a.Error != "" || a.Lacks != nil || a.DryRun {
		return a.text()
	}
	return a.text() + a.Later()
}

// Later ends a sentence about what became of an update with what is done later on; empty for nothing.
func (a Answer) Later() string {
	if a.Change == nil || !a.Change.Loader {
		return ""
	}
	return "; its boot loader is tried at the restart after the system has shown that it stays"
}

func (a Answer) text() string {
	what := fmt.Sprintf("update %d", a.Serial)
	switch {
	case a.Error != "":
		return a.Error
	case a.Back && a.DryRun:
		return "would go back to " + a.Entry
	case a.Back:
		return fmt.Sprintf("goes back to %s; the machine restarts with it now", a.Entry)
	case a.Lacks != nil:
		return fmt.Sprintf("%s lacks %d pieces of %d KiB", what, a.Lacks.Count, a.Lacks.Bytes>>10)
	case a.Unchanged:
		return fmt.Sprintf("%s runs already (%s)", what, a.Entry)
	case a.Live && len(a.Restarted) == 0:
		return fmt.Sprintf("%s is in effect and written (%s); no program had to be restarted", what, a.Entry)
	case a.Live:
		return fmt.Sprintf("%s is in effect and written (%s); restarted %s", what, a.Entry, strings.Join(a.Restarted, ", "))
	case a.Reboot:
		return fmt.Sprintf("%s is written (%s); the machine restarts with it now", what, a.Entry)
	case len(a.Waits) > 0:
		return fmt.Sprintf("%s is written (%s); the machine takes it at its next start, because of %s", what, a.Entry, strings.Join(a.Waits, "; "))
	}
	return fmt.Sprintf("%s is written (%s); the machine takes it at its next start", what, a.Entry)
}
