package text

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/getopt"
	"spore/builder/replay/text/stream"
)

// digest answers the checksum of a command's name in hexadecimal digits.
func digest(name string, data []byte) string {
	var h hash.Hash
	switch name {
	case "md5sum":
		h = md5.New()
	case "sha1sum":
		h = sha1.New()
	case "sha224sum":
		h = sha256.New224()
	case "sha384sum":
		h = sha512.New384()
	case "sha512sum":
		h = sha512.New()
	default:
		h = sha256.New()
	}
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// sum is md5sum, sha1sum, sha256sum and their kin.
func sum(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "cbtw", Long: map[string]rune{
		"check": 'c', "binary": 'b', "text": 't', "warn": 'w', "status": 'S', "quiet": 'q',
		"ignore-missing": 'm', "strict": 's',
	}})
	if err != nil {
		return 0, err
	}
	has := map[rune]bool{}
	mark := ' '
	for _, o := range options {
		switch has[o.Letter] = true; o.Letter {
		case 'b':
			mark = '*'
		case 't':
			mark = ' '
		}
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	if !has['c'] {
		for _, in := range inputs {
			fmt.Fprintf(c.Stdout, "%s %c%s\n", digest(c.Name, in.Data), mark, in.Name)
		}
		return status(failed), nil
	}
	for _, in := range inputs {
		ok, err := checkSums(c, in, has)
		if err != nil {
			return 0, err
		}
		failed = failed || !ok
	}
	return status(failed), nil
}

// checkSums checks the files of one list.
func checkSums(c *command.Call, in stream.Input, has map[rune]bool) (bool, error) {
	lines, bad, unread, malformed := 0, 0, 0, 0
	for _, line := range stream.Bare(in.Data) {
		want, name, ok := strings.Cut(line, " ")
		if !ok || len(want) != len(digest(c.Name, nil)) || name == "" || name[0] != ' ' && name[0] != '*' {
			if line != "" {
				malformed++
			}
			continue
		}
		lines++
		name = name[1:]
		data, err := stream.Read(c, name)
		if errors.Is(err, files.ErrBound) {
			return false, err
		}
		switch {
		case err != nil && has['m']:
		case err != nil:
			unread++
			fmt.Fprintf(c.Stderr, "%s: %s: %s\n", c.Name, name, stream.Message(err))
			if !has['S'] {
				fmt.Fprintf(c.Stdout, "%s: FAILED open or read\n", name)
			}
		case digest(c.Name, data) != strings.ToLower(want):
			bad++
			if !has['S'] {
				fmt.Fprintf(c.Stdout, "%s: FAILED\n", name)
			}
		case !has['S'] && !has['q']:
			fmt.Fprintf(c.Stdout, "%s: OK\n", name)
		}
	}
	if lines == 0 {
		fmt.Fprintf(c.Stderr, "%s: %s: no properly formatted checksum lines found\n", c.Name, in.Name)
		return false, nil
	}
	return bad == 0 && unread == 0 && !(has['s'] && malformed > 0), nil
}

// cksum prints the checksum of POSIX, a CRC of 32 bits, and the size.
func cksum(_ context.Context, c *command.Call) (int, error) {
	_, names, err := getopt.Parse(c, getopt.Spec{})
	if err != nil {
		return 0, err
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil {
		return 0, err
	}
	for _, in := range inputs {
		name := " " + in.Name
		if len(names) == 0 {
			name = ""
		}
		fmt.Fprintf(c.Stdout, "%d %d%s\n", posixCRC(in.Data), len(in.Data), name)
	}
	return status(failed), nil
}

func posixCRC(data []byte) uint32 {
	var table [256]uint32
	for i := range table {
		v := uint32(i) << 24
		for range 8 {
			if v&(1<<31) != 0 {
				v = v<<1 ^ 0x04c11db7
			} else {
				v <<= 1
			}
		}
		table[i] = v
	}
	var crc uint32
	for _, b := range data {
		crc = crc<<8 ^ table[byte(crc>>24)^b]
	}
	for n := len(data); n > 0; n >>= 8 {
		crc = crc<<8 ^ table[byte(crc>>24)^byte(n)]
	}
	return ^crc
}

// base64Command encodes and decodes.
func base64Command(_ context.Context, c *command.Call) (int, error) {
	options, names, err := getopt.Parse(c, getopt.Spec{Short: "diw:", Long: map[string]rune{
		"decode": 'd', "ignore-garbage": 'i', "wrap": 'w',
	}})
	if err != nil {
		return 0, err
	}
	decode, ignore, wrap := false, false, 76
	for _, o := range options {
		switch o.Letter {
		case 'd':
			decode = true
		case 'i':
			ignore = true
		default:
			if wrap, err = strconv.Atoi(o.Value); err != nil || wrap < 0 {
				return c.Fail(1, "invalid wrap size: ‘%s’", o.Value)
			}
		}
	}
	if len(names) > 1 {
		return c.Fail(1, "extra operand ‘%s’", names[1])
	}
	inputs, failed, err := stream.ReadAll(c, names)
	if err != nil || failed {
		return 1, err
	}
	data := inputs[0].Data
	if decode {
		return decodeBase64(c, string(data), ignore)
	}
	text := base64.StdEncoding.EncodeToString(data)
	for wrap > 0 && len(text) > wrap {
		fmt.Fprintln(c.Stdout, text[:wrap])
		text = text[wrap:]
	}
	if wrap > 0 && text != "" {
		text += "\n"
	}
	fmt.Fprint(c.Stdout, text)
	return 0, nil
}

func decodeBase64(c *command.Call, text string, ignore bool) (int, error) {
	text = strings.Map(func(r rune) rune {
		known := r < 128 && (letter(byte(r)) || digit(byte(r)) || strings.ContainsRune("+/=", r))
		if r == '\n' || ignore && !known {
			return -1
		}
		return r
	}, text)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		n, _ := base64.StdEncoding.Decode(make([]byte, len(text)), []byte(text))
		c.Stdout.Write(data[:min(n, len(data))])
		return c.Fail(1, "invalid input")
	}
	c.Stdout.Write(data)
	return 0, nil
}
