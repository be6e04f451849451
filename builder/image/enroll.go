package image

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// keysDir is where systemd-boot looks for keys that it may enrol by itself (systemd-boot(7), /loader/keys/auto).
const keysDir = "/loader/keys/auto"

// enrolSetting is the line of loader.conf(5) that tells when.
const enrolSetting = "secure-boot-enroll"

// EnrolModes are the values of EnrolSetting that Enrolment takes: never, by the boot menu, by itself in virtual machines
// alone, by itself everywhere.
var EnrolModes = []string{"off", "manual", "if-safe", "force"}

// Enrolment has systemd-boot bring keys into a firmware that is in setup mode. A firmware that has an owner is left alone.
type Enrolment struct {
	// Mode is one of EnrolModes.
	Mode string `json:"mode"`
	// Keys are writes of the variables PK, KEK and db by these names (.auth).
	Keys map[string][]byte `json:"-"`
}

// enrolled are the variables, as systemd-boot calls their files.
var enrolled = []string{"PK", "KEK", "db"}

func keyPath(name string) string { return path.Join(keysDir, name+".auth") }

// Check makes sure that the mode is known and all keys are there. A nil Enrolment is fine.
func (e *Enrolment) Check() error {
	if e == nil {
		return nil
	}
	if !slices.Contains(EnrolModes, e.Mode) {
		return fmt.Errorf("unknown way to enrol keys %q; use %s", e.Mode, strings.Join(EnrolModes, ", "))
	}
	for _, name := range enrolled {
		if len(e.Keys[name]) == 0 {
			return fmt.Errorf("internal error: keys are to be enrolled, and %s is not among them", name)
		}
	}
	return nil
}

// files are the keys by their path on the ESP.
func (e *Enrolment) files() map[string][]byte {
	out := map[string][]byte{}
	if e != nil {
		for _, name := range enrolled {
			out[keyPath(name)] = e.Keys[name]
		}
	}
	return out
}

// conf is the loader's configuration.
func (e *Enrolment) conf() []byte {
	if e == nil {
		return []byte(loaderConf)
	}
	return []byte(loaderConf + enrolSetting + " " + e.Mode + "\n")
}

// readEnrolment finds an enrolment again in the loader's configuration and the other files of an ESP, and takes its keys
// out of these. It is nil where none was asked for.
func readEnrolment(conf []byte, files map[string][]byte) (*Enrolment, error) {
	e := &Enrolment{Keys: map[string][]byte{}}
	for line := range strings.Lines(string(conf)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == enrolSetting {
			e.Mode = words[1]
		}
	}
	if e.Mode == "" {
		return nil, nil
	}
	for _, name := range enrolled {
		e.Keys[name] = files[keyPath(name)]
		delete(files, keyPath(name))
	}
	if err := e.Check(); err != nil {
		return nil, errors.New("its loader.conf enrols keys of which some are missing, or in an unknown way")
	}
	return e, nil
}
