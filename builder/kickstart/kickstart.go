// Package kickstart translates what a kickstart file (https://pykickstart.readthedocs.io) says of one machine into an
// answer file and a node's file: its network, its disk, and what it does when it is installed. It lists what has no meaning
// here, with line numbers, by the names of commands alone: values may be secrets.
//
// It runs no script and reads no file that is included.
package kickstart

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"spore/cluster/spec"
	"spore/cluster/yamlfile"
)

// MaxSize bounds a file, in bytes.
const MaxSize = 1 << 20

// Translation is what a file says.
type Translation struct {
	// Answers has what could be translated. Node and Disk are empty where the file does not say them in a way that means one
	// machine and one disk.
	Answers spec.Answers
	// Interfaces are those of the node's file. A card that the file calls by the kernel's name has none as its MAC: see Cards.
	Interfaces []Interface
	// Nameservers belong into cluster.yaml.
	Nameservers []string
	// Left is what has no meaning here, or not enough, by line.
	Left []Left

	// why says in the answer file where a key comes from.
	why map[string]string
}

// Interface is one of a node's file, and the line that it comes from.
type Interface struct {
	spec.Interface
	Line int
	// Cards are the kernel's names of cards, whose MACs a person writes instead of MAC-OF-NAME.
	Cards []string
}

// Left is something that was not translated.
type Left struct {
	Line int
	// What is a command, an option of it or a section.
	What string
	// Why says so, and what to do instead.
	Why string
}

// Translate reads a file. The error is that it is no text; what the text says is never one.
func Translate(data []byte) (*Translation, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("it has more than %d KiB: is it a kickstart file?", MaxSize>>10)
	}
	if f := yamlfile.CheckText(data); f != nil {
		return nil, fmt.Errorf("line %d: %s: is it a kickstart file?", f.Line, strings.ReplaceAll(f.Message, "does not belong in YAML", "does not belong in it"))
	}
	t := &Translation{why: map[string]string{}}
	// Without a command for it, a kickstart installation ends as with halt: it waits for a person.
	t.Answers.Then, t.why["then"] = spec.ThenStay, "the file says neither reboot nor poweroff"
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		at := i + 1
		parts := []string{lines[i]}
		for i+1 < len(lines) {
			last := len(parts) - 1
			part, goesOn := strings.CutSuffix(strings.TrimRight(parts[last], " \t\r"), `\`)
			if !goesOn {
				break
			}
			i++
			parts[last] = part
			parts = append(parts, lines[i])
		}
		text := strings.Join(parts, " ")
		words, err := split(text)
		switch {
		case err != nil:
			t.left(at, firstWord(text), err.Error())
		case len(words) == 0:
		case strings.HasPrefix(words[0], "%"):
			i = t.section(words[0], lines, i)
		default:
			t.command(command{at, words[0], options(words[1:])})
		}
	}
	slices.SortStableFunc(t.Left, func(a, b Left) int { return a.Line - b.Line })
	return t, nil
}

func (t *Translation) left(line int, what, why string) {
	t.Left = append(t.Left, Left{line, what, why})
}

// sections says of each what is done instead.
var sections = map[string]string{
	"%packages":    "the image has its packages already: write Debian's names into packages of image.yaml",
	"%pre":         "no script runs in an installation",
	"%pre-install": "no script runs in an installation",
	"%post":        "no script runs in an installation: what it sets up is a role, a unit or a file of your own (docs/own-roles.md, docs/own-files.md)",
	"%onerror":     "no script runs in an installation",
	"%traceback":   "no script runs in an installation",
	"%addon":       "there are no add-ons",
	"%anaconda":    "there is no such installer",
	"%certificate": "put it into overlay/ (docs/own-files.md)",
	"%include":     "the file is not read: give one that is complete, such as of ksflatten",
	"%ksappend":    "the file is not read: give one that is complete, such as of ksflatten",
}

// section passes over a section, and returns the index of its last line.
func (t *Translation) section(name string, lines []string, i int) int {
	why := sections[name]
	if why == "" {
		why = "it has no meaning here"
	}
	t.left(i+1, clip(name), why)
	if name == "%include" || name == "%ksappend" || name == "%end" {
		return i
	}
	for j := i + 1; j < len(lines); j++ {
		if firstWord(lines[j]) == "%end" {
			return j
		}
	}
	return len(lines) - 1
}

// command is one line: its options by name, without the dashes.
type command struct {
	line    int
	name    string
	options []option
}

type option struct{ name, value string }

// get returns the last value of an option.
func (c command) get(name string) string {
	for _, o := range slices.Backward(c.options) {
		if o.name == name {
			return o.value
		}
	}
	return ""
}

func (c command) has(name string) bool {
	return slices.ContainsFunc(c.options, func(o option) bool { return o.name == name })
}

// valued are the options that have a value, which may be the next word.
var valued = []string{
	"device", "bootproto", "ip", "netmask", "gateway", "nameserver", "hostname", "mtu", "bondslaves", "bondopts", "vlanid",
	"interfacename", "ipv6", "ipv6gateway", "only-use", "drives", "passphrase", "type", "list", "disklabel",
}

func options(words []string) []option {
	var out []option
	for i := 0; i < len(words); i++ {
		name, dashed := strings.CutPrefix(words[i], "--")
		if !dashed {
			out = append(out, option{"", words[i]})
			continue
		}
		name, value, has := strings.Cut(name, "=")
		if !has && slices.Contains(valued, name) && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		out = append(out, option{name, value})
	}
	return out
}

// others says of commands that are not translated what is done instead.
var others = map[string]string{
	"rootpw": "nobody logs in on a node (docs/node-api.md)", "user": "nobody logs in on a node (docs/node-api.md)",
	"group": "ids of users are in accounts.yaml", "sshkey": "nobody logs in on a node: keys for the shell are shellKeys of image.yaml",
	"sshpw": "nobody logs in on a node", "auth": "nobody logs in on a node", "authconfig": "nobody logs in on a node",
	"authselect": "nobody logs in on a node", "realm": "nobody logs in on a node",
	"lang": "nodes speak English", "keyboard": "a node needs no keyboard", "timezone": "nodes keep UTC; time servers are in cluster.yaml",
	"timesource": "time servers are in cluster.yaml (docs/time.md)",
	"firewall":   "the firewall follows from the roles (docs/ports.md)", "selinux": "the root is read-only and verified instead",
	"services": "roles say what runs (docs/configure.md)", "skipx": "there is no desktop", "xconfig": "there is no desktop", "firstboot": "there is none",
	"url": "nothing is fetched: the medium has all", "repo": "nothing is fetched: the medium has all", "cdrom": "nothing is fetched: the medium has all",
	"nfs": "nothing is fetched: the medium has all", "harddrive": "nothing is fetched: the medium has all", "module": "nothing is fetched: the medium has all",
	"bootloader": "the medium brings its boot loader; kernel arguments are kernelArguments of image.yaml",
	"zerombr":    "the disk always gets a new partition table", "part": "the layout is fixed (docs/how-it-works.md)",
	"partition": "the layout is fixed (docs/how-it-works.md)", "reqpart": "the layout is fixed (docs/how-it-works.md)",
	"logvol": "the layout is fixed (docs/how-it-works.md)", "volgroup": "the layout is fixed (docs/how-it-works.md)",
	"raid": "the layout is fixed (docs/how-it-works.md)", "btrfs": "the layout is fixed (docs/how-it-works.md)",
	"text": "an installation asks nothing", "cmdline": "an installation asks nothing", "graphical": "an installation asks nothing",
	"install": "that is what an answer file says", "eula": "there is none",
}

// command translates one line.
func (t *Translation) command(c command) {
	switch c.name {
	case "network":
		t.network(c)
	case "ignoredisk":
		t.ignoredisk(c)
	case "clearpart":
		t.clearpart(c)
	case "autopart":
		t.autopart(c)
	case "reboot":
		t.then(c, spec.ThenRestart)
	case "poweroff", "shutdown":
		t.then(c, spec.ThenPowerOff)
	case "halt":
		t.then(c, spec.ThenStay)
	default:
		why := others[c.name]
		if why == "" {
			why = "it has no meaning here"
		}
		t.left(c.line, clip(c.name), why)
	}
}

func (t *Translation) then(c command, what string) {
	t.Answers.Then, t.why["then"] = what, at(c, "")
	t.rest(c, nil, nil)
}

// rest lists the options that were not translated; why says of some what is done instead.
func (t *Translation) rest(c command, known []string, why map[string]string) {
	for _, o := range c.options {
		reason := why[o.name]
		switch {
		case slices.Contains(known, o.name):
			continue
		case o.name == "":
			t.left(c.line, c.name, "a word of it is no option, and was passed over")
			continue
		case reason == "":
			reason = "it has no meaning here"
		}
		t.left(c.line, c.name+" --"+clip(o.name), reason)
	}
}

// at names where something comes from.
func at(c command, option string) string {
	if option != "" {
		option = " --" + option
	}
	return fmt.Sprintf("%s%s, line %d", c.name, option, c.line)
}

// split takes a line apart as a shell does: quotes, backslashes, and what follows # is a comment.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, open := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped, in = false, true
		case r == '\\' && open != '\'':
			escaped = true
		case open != 0:
			if r == open {
				open = 0
				continue
			}
			word.WriteRune(r)
		case r == '\'' || r == '"':
			open, in = r, true
		case unicode.IsSpace(r):
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case r == '#' && !in:
			return words, nil
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if open != 0 {
		return nil, errors.New("a quote is open at the end of the line: close it")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

func firstWord(line string) string {
	f := strings.Fields(line)
	if len(f) == 0 {
		return ""
	}
	return clip(f[0])
}

// clip makes a word of the file fit for a terminal. A long one may be a key that stands in the wrong place.
func clip(s string) string {
	const most = 24
	r := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s))
	if len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(r)
}
