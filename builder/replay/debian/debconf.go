package debian

import (
	"fmt"
	"strings"

	"spore/builder/deb/deb822"
	"spore/builder/replay/shell"
)

// Confmodule is what a script reads to speak with debconf (debconf-devel(7)): its functions are Questions here.
const Confmodule = "/usr/share/debconf/confmodule"

// Codes of debconf's protocol (debconf-devel(7), "THE DEBCONF PROTOCOL").
const (
	codeBad     = 10 // there is no such question
	codeSkipped = 30 // the question will not be shown
)

// debconf answers questions with the defaults of the packages, or with what the configuration says. Nobody is asked.
type debconf struct {
	answers   map[string]map[string]string // of the configuration: package, question
	templates map[string]template
	questions map[string]string // template by question
	values    map[string]string
	flags     map[string]string
}

// template is one paragraph of a package's templates.
type template struct {
	kind, standard, choices string
	fields                  map[string]string
}

func newDebconf(answers map[string]map[string]string) *debconf {
	return &debconf{answers: answers, templates: map[string]template{}, questions: map[string]string{}, values: map[string]string{}, flags: map[string]string{}}
}

// LoadTemplates reads the templates of a package (debconf-devel(7), "The Templates File").
func (t *Tools) LoadTemplates(pkg string, text []byte) error {
	s := deb822.NewScanner(string(text))
	for s.Next() {
		p := s.Paragraph()
		name := p.Get("Template")
		if name == "" {
			continue
		}
		one := template{kind: p.Get("Type"), standard: p.Get("Default"), choices: p.Get("Choices"), fields: map[string]string{}}
		for _, field := range []string{"Description", "Extended_description", "Choices", "Type", "Default", "Owners"} {
			value, _, _ := strings.Cut(p.Get(field), "\n")
			one.fields[strings.ToLower(field)] = value
		}
		t.debconf.templates[name] = one
		t.debconf.register(name, name)
		if v, ok := t.debconf.answers[pkg][name]; ok {
			t.debconf.values[name] = v
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("templates of debconf: %w", err)
	}
	return nil
}

func (d *debconf) register(question, name string) {
	if _, ok := d.questions[question]; ok {
		return
	}
	d.questions[question] = name
	if one := d.templates[name]; one.kind != "password" {
		d.values[question] = one.standard
	}
}

// Questions are debconf's commands as functions of a shell: db_get and its siblings.
func (t *Tools) Questions() map[string]shell.Question {
	out := map[string]shell.Question{}
	for name, fn := range map[string]func(d *debconf, args []string) (string, int){
		"get": (*debconf).get, "set": (*debconf).set, "reset": (*debconf).reset, "fget": (*debconf).flag, "fset": (*debconf).setFlag,
		"metaget": (*debconf).meta, "register": (*debconf).registerQuestion, "unregister": (*debconf).unregister,
		"input": answer("question skipped", codeSkipped), "go": answer("ok", 0), "title": answer("", 0), "settitle": answer("", 0), "subst": answer("", 0), "purge": answer("", 0),
		"stop": answer("", 0), "version": answer("2.1", 0), "capb": answer("multiselect escape", 0), "beginblock": answer("", 0), "endblock": answer("", 0),
		"info": answer("", 0), "progress": answer("", 0), "clear": answer("", 0), "data": answer("", 0), "x_loadtemplatefile": answer("", 0),
		"exist": (*debconf).exist, "previous_module": answer("", 0), "text": answer("", 0), "subst_all": answer("", 0),
	} {
		out["db_"+name] = func(args []string) (string, string, int, error) {
			value, code := fn(t.debconf, args[1:])
			return "RET", value, code, nil
		}
	}
	return out
}

func answer(text string, code int) func(*debconf, []string) (string, int) {
	return func(*debconf, []string) (string, int) { return text, code }
}

func (d *debconf) known(args []string) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	_, ok := d.questions[args[0]]
	return args[0], ok
}

func (d *debconf) get(args []string) (string, int) {
	q, ok := d.known(args)
	if !ok {
		return "doesn't exist", codeBad
	}
	return d.values[q], 0
}

func (d *debconf) exist(args []string) (string, int) {
	if _, ok := d.known(args); ok {
		return "true", 0
	}
	return "false", 0
}

func (d *debconf) set(args []string) (string, int) {
	q, ok := d.known(args)
	if !ok {
		return "doesn't exist", codeBad
	}
	d.values[q] = strings.Join(args[1:], " ")
	return "value set", 0
}

func (d *debconf) reset(args []string) (string, int) {
	q, ok := d.known(args)
	if !ok {
		return "doesn't exist", codeBad
	}
	d.values[q] = d.templates[d.questions[q]].standard
	return "", 0
}

func (d *debconf) flag(args []string) (string, int) {
	if _, ok := d.known(args); !ok {
		return "doesn't exist", codeBad
	}
	if len(args) > 1 && d.flags[args[0]+" "+args[1]] != "" {
		return d.flags[args[0]+" "+args[1]], 0
	}
	return "false", 0
}

func (d *debconf) setFlag(args []string) (string, int) {
	if _, ok := d.known(args); !ok {
		return "doesn't exist", codeBad
	}
	if len(args) > 2 {
		d.flags[args[0]+" "+args[1]] = args[2]
	}
	return "", 0
}

func (d *debconf) meta(args []string) (string, int) {
	q, ok := d.known(args)
	if !ok || len(args) < 2 {
		return "doesn't exist", codeBad
	}
	if args[1] == "value" {
		return d.values[q], 0
	}
	return d.templates[d.questions[q]].fields[strings.ToLower(args[1])], 0
}

func (d *debconf) registerQuestion(args []string) (string, int) {
	if len(args) < 2 {
		return "", codeBad
	}
	if _, ok := d.templates[args[0]]; !ok {
		return "no such template", codeBad
	}
	d.register(args[1], args[0])
	return "", 0
}

func (d *debconf) unregister(args []string) (string, int) {
	if q, ok := d.known(args); ok {
		delete(d.questions, q)
		delete(d.values, q)
	}
	return "", 0
}
