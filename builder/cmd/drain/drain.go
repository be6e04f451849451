// Package drain is the commands `spore drain` and `spore uncordon`: a node of Kubernetes is emptied of pods before
// somebody works on its machine.
package drain

import (
	"github.com/spf13/cobra"

	"spore/builder/cmd/verb"
)

// role is that of masters, of which one does it.
const role = "control-plane"

// Command returns the command drain.
func Command() *cobra.Command {
	return verb.One{
		Use: "drain [DIR] NODE", Verb: "drain", Role: role, Words: []string{"node"},
		Short: "Move all pods off a node of Kubernetes",
		Long: `Drain keeps new pods off NODE and evicts those that it has, as their disruption budgets allow, and says for which it
waits. Pods of DaemonSets and of the node itself stay. It refuses, before anything is changed, where something would be
lost: a pod that nothing makes again, or one with data in an emptyDir; --lose allows that. spore uncordon ends it.`,
		Example:  "  spore drain worker-02 --dry-run\n  spore drain configs worker-02 --lose",
		Switches: map[string]string{"lose": "also evict pods that nothing makes again, and data in emptyDir volumes"},
	}.Command()
}

// UncordonCommand returns the command uncordon.
func UncordonCommand() *cobra.Command {
	return verb.One{
		Use: "uncordon [DIR] NODE", Verb: "uncordon", Role: role, Words: []string{"node"},
		Short:   "Let pods on a node of Kubernetes again",
		Long:    "Uncordon lets new pods on NODE again. Those that were moved away stay where they are.",
		Example: "  spore uncordon worker-02\n  spore uncordon configs worker-02 --dry-run",
	}.Command()
}
