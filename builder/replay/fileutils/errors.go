package fileutils

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"spore/builder/replay/files"
)

// Errors of the kernel that commands tell of with its words.
var (
	errNotDir   = errors.New("not a directory")
	errIsDir    = errors.New("is a directory")
	errLoop     = errors.New("too many levels of symbolic links")
	errNotEmpty = errors.New("directory not empty")
	errInvalid  = errors.New("invalid argument")
	errExist    = fs.ErrExist
)

// hard tells whether an error ends the replay rather than the command.
func hard(err error) bool {
	return errors.Is(err, files.ErrBound) || errors.Is(err, files.ErrRefused) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// reason is the text of strerror(3) for an error of the filesystem.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	}
	text := err.Error()
	for _, known := range []error{errNotDir, errIsDir, errLoop, errNotEmpty, errInvalid} {
		if strings.HasSuffix(text, known.Error()) {
			text = known.Error()
			break
		}
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
