package events

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Args are the arguments of a go test, apart as a second run of single tests of it needs them.
type Args struct {
	// Dir is that of -C.
	Dir string
	// Run, Skip and Tags are as go test has them.
	Run, Skip, Tags string
	// Timeout is that of a package; zero is none.
	Timeout time.Duration
	Verbose bool
	// Rest are all other flags but -json and -count.
	Rest []string
	// Packages are patterns.
	Packages []string
}

// defaultTimeout is that of go help testflag.
const defaultTimeout = 10 * time.Minute

// switches are the flags of go help build and go help testflag that take no value as an argument of its own.
var switches = []string{"a", "asan", "benchmem", "c", "cover", "failfast", "fullpath", "json", "linkshared",
	"modcacherw", "msan", "n", "race", "short", "trimpath", "v", "work", "x"}

// ParseArgs takes arguments of go test apart. It leaves it to go test to refuse them.
func ParseArgs(args []string) Args {
	a := Args{Timeout: defaultTimeout}
	for i := 0; i < len(args); i++ {
		flag, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			a.Packages = append(a.Packages, args[i])
			continue
		}
		flag = strings.TrimPrefix(flag, "-")
		name, value, has := strings.Cut(flag, "=")
		whole := args[i : i+1]
		if !has && !slices.Contains(switches, name) && i+1 < len(args) {
			whole, value = args[i:i+2], args[i+1]
			i++
		}
		switch name {
		case "C":
			a.Dir = value
		case "run":
			a.Run = value
		case "skip":
			a.Skip = value
		case "tags":
			a.Tags = value
		case "timeout":
			if d, err := time.ParseDuration(value); err == nil {
				a.Timeout = d
			}
		case "v":
			a.Verbose = true
		case "json", "count":
		default:
			a.Rest = append(a.Rest, whole...)
		}
	}
	return a
}

// Of are the arguments that run tests of one package alone, as they were run with all others.
func (a Args) Of(pkg string, tests []string, timeout time.Duration) []string {
	var args []string
	if a.Dir != "" {
		args = append(args, "-C", a.Dir)
	}
	args = append(args, "-count=1")
	if a.Verbose {
		args = append(args, "-v")
	}
	if a.Tags != "" {
		args = append(args, "-tags", a.Tags)
	}
	args = append(args, a.Rest...)
	if a.Skip != "" {
		args = append(args, "-skip", a.Skip) // of single parts of a test
	}
	return append(args, "-timeout", timeout.String(), "-run", "^("+strings.Join(tests, "|")+")$", pkg)
}

// chosen says whether -run and -skip have go test run a test. Only the first part of a pattern is about whole tests,
// and a pattern of several parts skips none.
func (a Args) chosen(test string) bool {
	run, _, _ := strings.Cut(a.Run, "/")
	if ok, err := regexp.MatchString(run, test); err != nil || !ok {
		return false
	}
	if a.Skip == "" || strings.Contains(a.Skip, "/") {
		return true
	}
	skipped, err := regexp.MatchString(a.Skip, test)
	return err == nil && !skipped
}
