package spec

// Answers is the file that `--answers` names, and spore-answers.yaml on a volume CIDATA: what a machine has to know to
// install itself without a person.
type Answers struct {
	// Node is the name of the node in cluster.yaml that the installed machine is.
	Node string `yaml:"node" json:"node"`
	// Disk names the disk that the system is installed on, as `spore disks` shows it. What it holds is lost, but for state.
	Disk DiskSelector `yaml:"disk" json:"disk"`
	// State says what becomes of the node's state on that disk: keep (default) or erase. State of another node or cluster
	// is never erased.
	State string `yaml:"state,omitempty" json:"state,omitempty"`
	// Encrypt repeats what opens the node's state at boot, as state.encrypt of cluster.yaml or of the node's file says.
	// Where they differ nothing is installed. Left out: what those files say.
	Encrypt string `yaml:"encrypt,omitempty" json:"encrypt,omitempty"`
	// Then is what the machine does when it is installed: restart (default), power-off, or stay, which waits for a person.
	Then string `yaml:"then,omitempty" json:"then,omitempty"`
}

// Values of Answers.State.
const (
	StateKeep  = "keep"
	StateErase = "erase"
)

// Values of Answers.Then.
const (
	ThenRestart  = "restart"
	ThenPowerOff = "power-off"
	ThenStay     = "stay"
)

// FillDefaults sets what is left out and is not a matter of the configuration.
func (a *Answers) FillDefaults() {
	if a.State == "" {
		a.State = StateKeep
	}
	if a.Then == "" {
		a.Then = ThenRestart
	}
}
