package text

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/regex"
)

// maxNest is how deep the parentheses of expr may nest.
const maxNest = 100

// expr evaluates an expression. Its status is 1 for an empty result or 0, 2 for a syntax error.
func expr(_ context.Context, c *command.Call) (int, error) {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	e := &evaluator{args: args}
	result, err := e.or()
	switch {
	case errors.Is(err, files.ErrBound):
		return 0, fmt.Errorf("%s: %w", c.Name, err)
	case err != nil:
		return c.Fail(2, "%v", err)
	case len(e.args) > 0:
		return c.Fail(2, "syntax error: unexpected argument ‘%s’", e.args[0])
	}
	fmt.Fprintln(c.Stdout, result)
	return status(null(result)), nil
}

type evaluator struct {
	args  []string
	depth int
}

func null(s string) bool {
	n, ok := integer(s)
	return s == "" || ok && n.Sign() == 0
}

func integer(s string) (*big.Int, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 4096 || strings.Trim(digits, "0123456789") != "" {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}

// next takes the next argument if it is one of the operators.
func (e *evaluator) next(operators ...string) string {
	for _, o := range operators {
		if len(e.args) > 0 && e.args[0] == o {
			e.args = e.args[1:]
			return o
		}
	}
	return ""
}

func (e *evaluator) or() (string, error) {
	left, err := e.and()
	for err == nil && e.next("|") != "" {
		var right string
		if right, err = e.and(); null(left) {
			if left = right; null(right) {
				left = "0"
			}
		}
	}
	return left, err
}

func (e *evaluator) and() (string, error) {
	left, err := e.comparison()
	for err == nil && e.next("&") != "" {
		var right string
		if right, err = e.comparison(); null(left) || null(right) {
			left = "0"
		}
	}
	return left, err
}

func (e *evaluator) comparison() (string, error) {
	left, err := e.sum()
	for err == nil {
		op := e.next("<", "<=", "=", "==", "!=", ">=", ">")
		if op == "" {
			break
		}
		var right string
		if right, err = e.sum(); err != nil {
			break
		}
		order := strings.Compare(left, right)
		a, aOK := integer(left)
		if b, bOK := integer(right); aOK && bOK {
			order = a.Cmp(b)
		}
		holds := map[string]bool{"<": order < 0, "<=": order <= 0, "=": order == 0, "==": order == 0, "!=": order != 0,
			">=": order >= 0, ">": order > 0}[op]
		left = map[bool]string{true: "1", false: "0"}[holds]
	}
	return left, err
}

func (e *evaluator) sum() (string, error) {
	return e.arithmetic(e.product, "+", "-")
}

func (e *evaluator) product() (string, error) {
	return e.arithmetic(e.match, "*", "/", "%")
}

func (e *evaluator) arithmetic(operand func() (string, error), operators ...string) (string, error) {
	left, err := operand()
	for err == nil {
		op := e.next(operators...)
		if op == "" {
			break
		}
		var right string
		if right, err = operand(); err != nil {
			break
		}
		a, aOK := integer(left)
		b, bOK := integer(right)
		if !aOK || !bOK {
			return "", errors.New("non-integer argument")
		}
		result := new(big.Int)
		switch {
		case op == "+":
			result.Add(a, b)
		case op == "-":
			result.Sub(a, b)
		case op == "*":
			result.Mul(a, b)
		case b.Sign() == 0:
			return "", errors.New("division by zero")
		case op == "/":
			result.Quo(a, b)
		default:
			result.Rem(a, b)
		}
		left = result.String()
	}
	return left, err
}

func (e *evaluator) match() (string, error) {
	left, err := e.primary()
	for err == nil && e.next(":") != "" {
		var pattern string
		if pattern, err = e.primary(); err == nil {
			left, err = matchStart(left, pattern)
		}
	}
	return left, err
}

// matchStart is the operator : and answers the first group, or the length of the match without one.
func matchStart(text, pattern string) (string, error) {
	re, err := regex.Compile(pattern, regex.Options{})
	if err != nil {
		return "", err
	}
	loc, err := re.MatchStart([]byte(text))
	if err != nil {
		return "", err
	}
	switch {
	case re.Groups() > 0 && (loc == nil || loc[2] < 0):
		return "", nil
	case re.Groups() > 0:
		return text[loc[2]:loc[3]], nil
	case loc == nil:
		return "0", nil
	}
	return strconv.Itoa(loc[1]), nil
}

func (e *evaluator) primary() (string, error) {
	if e.depth++; e.depth > maxNest {
		return "", fmt.Errorf("parentheses nest over %d deep: %w", maxNest, files.ErrBound)
	}
	defer func() { e.depth-- }()
	if len(e.args) == 0 {
		return "", errors.New("syntax error: missing argument")
	}
	word := e.args[0]
	e.args = e.args[1:]
	if len(e.args) == 0 && word != "(" {
		return word, nil
	}
	switch word {
	case "(":
		inside, err := e.or()
		if err == nil && e.next(")") == "" {
			err = errors.New("syntax error: expecting ')'")
		}
		return inside, err
	case ")":
		return "", errors.New("syntax error: unexpected ')'")
	case "+":
		word, e.args = e.args[0], e.args[1:]
		return word, nil
	case "match", "index", "length", "substr":
		return e.function(word)
	}
	return word, nil
}

func (e *evaluator) function(name string) (string, error) {
	count := map[string]int{"match": 2, "index": 2, "length": 1, "substr": 3}[name]
	args := make([]string, count)
	for i := range args {
		var err error
		if args[i], err = e.primary(); err != nil {
			return "", err
		}
	}
	switch name {
	case "match":
		return matchStart(args[0], args[1])
	case "index":
		return strconv.Itoa(strings.IndexAny(args[0], args[1]) + 1), nil
	case "length":
		return strconv.Itoa(len(args[0])), nil
	}
	position, err1 := strconv.Atoi(args[1])
	length, err2 := strconv.Atoi(args[2])
	if err1 != nil || err2 != nil || position < 1 || position > len(args[0]) || length < 1 {
		return "", nil
	}
	return args[0][position-1 : min(len(args[0]), position-1+min(length, len(args[0])))], nil
}
