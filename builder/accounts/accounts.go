// Package accounts holds the users and groups of an image while the scripts of its packages are replayed: those of a
// fixed table, and those that scripts and sysusers.d(5) add. The fixed table gives a name its id, or else the file
// accounts.yaml of the configuration folder. For another name the id is derived from the name; if another name has it,
// the next free one is taken, which depends on the order of the scripts until accounts.yaml has it. No account has a
// password, and none has a date.
//
// The package knows neither scripts nor the commands that they call; it is given what is to be added.
package accounts

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What the methods of DB wrap, for callers that turn them into an exit status.
var (
	// ErrExists is about a user or group that is there already.
	ErrExists = errors.New("is there already")
	// ErrNotFound is about a user or group that is not there.
	ErrNotFound = errors.New("does not exist")
	// ErrTaken is about an id that another name has.
	ErrTaken = errors.New("is taken")
	// ErrInUse is about a group that is the primary group of a user.
	ErrInUse = errors.New("is the primary group")
	// ErrInvalid is about a name, home, shell or comment that an account file cannot hold.
	ErrInvalid = errors.New("is not allowed")
)

// User is a row of passwd(5).
type User struct {
	Name string
	// ID is the number of the user. AddUser takes it as a wish if HasID is set, and chooses one otherwise.
	ID    uint32
	HasID bool
	// Group is the name of the primary group. AddUser takes an empty one for a group with the name of the user, and
	// makes it.
	Group string
	Gecos string
	// Home is an absolute path; AddUser takes an empty one for /nonexistent.
	Home string
	// Shell is an absolute path; AddUser takes an empty one for /usr/sbin/nologin.
	Shell string
}

// Group is a row of group(5).
type Group struct {
	Name string
	// ID is the number of the group. AddGroup takes it as a wish if HasID is set, and chooses one otherwise.
	ID    uint32
	HasID bool
	// Members are users of whom this is not the primary group, in the order in which they joined.
	Members []string
}

// Bounds of a row.
const (
	// MaxName is the length of a name in bytes (useradd(8)).
	MaxName = 32
	// maxField is the length of a home, shell or comment in bytes.
	maxField = 512
)

// nameForm is SYS_NAME_REGEX of Debian's adduser.conf(5), and the period that systemd allows too.
var nameForm = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_.]*\$?$`)

func checkName(name string) error {
	if len(name) > MaxName || !nameForm.MatchString(name) {
		return fmt.Errorf("the name %.60q %w: it has at most %d letters, digits, _, - and ., and begins with a letter or _",
			name, ErrInvalid, MaxName)
	}
	return nil
}

func (u User) check() error {
	if err := checkName(u.Name); err != nil {
		return err
	}
	if err := checkPath("home", u.Home); err != nil {
		return fmt.Errorf("user %s: %w", u.Name, err)
	}
	if err := checkPath("shell", u.Shell); err != nil {
		return fmt.Errorf("user %s: %w", u.Name, err)
	}
	if err := checkField("comment", u.Gecos); err != nil {
		return fmt.Errorf("user %s: %w", u.Name, err)
	}
	return nil
}

func checkPath(what, p string) error {
	if !path.IsAbs(p) {
		return fmt.Errorf("the %s %.60q %w: it is an absolute path", what, p, ErrInvalid)
	}
	return checkField(what, p)
}

// checkField refuses what would begin another field or row.
func checkField(what, s string) error {
	bad := func(c rune) bool { return c == ':' || unicode.IsControl(c) }
	if len(s) > maxField || !utf8.ValidString(s) || strings.ContainsFunc(s, bad) {
		return fmt.Errorf("the %s %.60q %w: it has at most %d bytes of text without a colon or control character",
			what, s, ErrInvalid, maxField)
	}
	return nil
}
