package applyset

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"spore/storage/atomicfile"
)

// File is where a master leaves what it knows of the set, as JSON.
const File = "/run/spore-manifests/state.json"

// Bounds of what is told.
const (
	maxProblems = 5
	maxReason   = 300
)

// State is how the set is. It is a contract for those who read the file.
type State struct {
	// Holder is the master that acts, Here that it is this one, and Newer that it has other objects than this one.
	Holder string `json:"holder,omitempty"`
	Here   bool   `json:"here"`
	Newer  bool   `json:"newer,omitempty"`
	// Objects are those of this master's configuration.
	Objects int `json:"objects"`
	// Count is how many problems there are, Problems the first of them.
	Count    int       `json:"count,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	// Stays are members that stay when they are taken out of the folder, by their names, and why. The master that acts
	// knows them. They are the first by name where MoreStay says that there are more.
	Stays    map[string]string `json:"stays,omitempty"`
	MoreStay bool              `json:"moreStay,omitempty"`
}

// Problem is an object that is not as the folder has it.
type Problem struct {
	// File and Line say where it was written; empty for one that was taken out of the folder.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is what it is, such as Deployment.apps web/shop; empty for what is not of one object.
	Object string `json:"object,omitempty"`
	// Reason are the words of the API server.
	Reason string `json:"reason"`
}

func (p Problem) String() string {
	var parts []string
	if p.File != "" {
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	}
	if p.Object != "" {
		parts = append(parts, p.Object)
	}
	return strings.Join(append(parts, shorten(p.Reason)), ": ")
}

// shorten bounds a reason, which has the server's words about what a person has written.
func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxReason {
		return s
	}
	cut := maxReason
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// Write leaves a state in a file.
func Write(path string, s State) error {
	for i := range s.Problems {
		s.Problems[i].Reason = shorten(s.Problems[i].Reason)
	}
	if err := atomicfile.WriteJSON(path, s); err != nil {
		return fmt.Errorf("tell how the objects of manifests/ are: %w", err)
	}
	return nil
}

// Read reads a file of Write.
func Read(path string) (State, error) {
	var s State
	return s, atomicfile.ReadJSON(path, &s)
}
