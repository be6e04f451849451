package spec

import (
	"cmp"
	"slices"
)

// Maintainer scripts that a decision may skip.
const (
	ScriptPreinst  = "preinst"
	ScriptPostinst = "postinst"
	ScriptTriggers = "triggers"
)

// SkippableScripts are all of them.
var SkippableScripts = []string{ScriptPreinst, ScriptPostinst, ScriptTriggers}

// ScriptDecision says what an image has in the place of what maintainer scripts of one package would do. Whether the
// image has that package, its files and the groups of others shows at the build.
type ScriptDecision struct {
	// Skip holds the scripts that are not replayed: preinst, postinst, triggers.
	Skip []string `yaml:"skip,omitempty" json:"skip,omitempty"`
	// Groups holds groups that the image gets.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
	// Users holds users that the image gets; none has a password.
	Users []ScriptUser `yaml:"users,omitempty" json:"users,omitempty"`
	// Modes holds owners, permissions and capabilities of files and directories.
	Modes []ScriptMode `yaml:"modes,omitempty" json:"modes,omitempty"`
	// Links holds symbolic links that the image gets.
	Links []ScriptLink `yaml:"links,omitempty" json:"links,omitempty"`
	// SetUID holds programs of the package that may have set-user-ID, set-group-ID or capabilities as the package has
	// them. Those to which Modes gives them need no second entry.
	SetUID []string `yaml:"setuid,omitempty" json:"setuid,omitempty"`
}

// ScriptUser is a user of a service.
type ScriptUser struct {
	// Name is 1 to 32 letters, digits, _ and -.
	Name string `yaml:"name" json:"name"`
	// Group is the primary group; a group with the user's own name when empty.
	Group string `yaml:"group,omitempty" json:"group,omitempty"`
	// Home is an absolute path; /nonexistent when empty.
	Home string `yaml:"home,omitempty" json:"home,omitempty"`
	// Shell is an absolute path; /usr/sbin/nologin when empty.
	Shell string `yaml:"shell,omitempty" json:"shell,omitempty"`
}

// ScriptMode is what a file or directory has; what is left out stays as the package has it.
type ScriptMode struct {
	// Path is the absolute path of a file or directory.
	Path string `yaml:"path" json:"path"`
	// Owner is a user, by name.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
	// Group is a group, by name.
	Group string `yaml:"group,omitempty" json:"group,omitempty"`
	// Mode is four octal digits in quotes, such as "0750".
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
	// Capabilities holds capabilities of a program in the words of setcap(8), such as cap_net_raw=ep.
	Capabilities string `yaml:"capabilities,omitempty" json:"capabilities,omitempty"`
}

// ScriptLink is a symbolic link.
type ScriptLink struct {
	// Path is where the link is.
	Path string `yaml:"path" json:"path"`
	// Target is the absolute path to which it leads.
	Target string `yaml:"target" json:"target"`
}

// Sorted returns the decision with each list in order: two decisions that say the same are the same then.
func (d ScriptDecision) Sorted() ScriptDecision {
	return ScriptDecision{
		Skip:   slices.Sorted(slices.Values(d.Skip)),
		Groups: slices.Sorted(slices.Values(d.Groups)),
		Users:  slices.SortedFunc(slices.Values(d.Users), func(a, b ScriptUser) int { return cmp.Compare(a.Name, b.Name) }),
		Modes:  slices.SortedFunc(slices.Values(d.Modes), func(a, b ScriptMode) int { return cmp.Compare(a.Path, b.Path) }),
		Links:  slices.SortedFunc(slices.Values(d.Links), func(a, b ScriptLink) int { return cmp.Compare(a.Path, b.Path) }),
		SetUID: slices.Sorted(slices.Values(d.SetUID)),
	}
}
