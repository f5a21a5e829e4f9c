package main

// Arguments and options of mount(8), as nfs(5) names them.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the mount options that change something; others of nfs(5) are accepted without effect.
type options struct {
	flags uintptr
	port  int
	soft  time.Duration // after which calls fail; 0 is never (hard)
	ttl   time.Duration // of attributes in the kernel's cache
	locks bool          // at the server; else among the processes of this node
}

var mountFlags = map[string]uintptr{
	"ro": syscall.MS_RDONLY, "nosuid": syscall.MS_NOSUID, "nodev": syscall.MS_NODEV, "noexec": syscall.MS_NOEXEC,
	"noatime": syscall.MS_NOATIME, "nodiratime": syscall.MS_NODIRATIME, "relatime": syscall.MS_RELATIME,
	"sync": syscall.MS_SYNCHRONOUS,
}

// parseArguments splits the command line of a mount helper: SOURCE DIRECTORY [-o OPTIONS] [-rnvsfw].
func parseArguments(arguments []string) (source, directory string, words []string, err error) {
	var names []string
	for i := 0; i < len(arguments); i++ {
		switch a := arguments[i]; {
		case a == "-o" || a == "-t" || a == "-N":
			if i++; a == "-o" && i < len(arguments) {
				words = append(words, strings.Split(arguments[i], ",")...)
			}
		case strings.HasPrefix(a, "-o"):
			words = append(words, strings.Split(a[2:], ",")...)
		case a == "-r":
			words = append(words, "ro")
		case !strings.HasPrefix(a, "-"):
			names = append(names, a)
		}
	}
	if len(names) != 2 {
		return "", "", nil, fmt.Errorf("usage: mount.nfs SERVER:/EXPORT DIRECTORY [-o OPTIONS]")
	}
	return names[0], names[1], words, nil
}

// parseOptions reads mount options.
func parseOptions(words []string) (options, error) {
	parsed := options{port: 2049, ttl: 3 * time.Second, locks: true}
	soft, numbers := false, map[string]int{"timeo": 600, "retrans": 3}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		parsed.flags |= mountFlags[key]
		switch key {
		case "rw":
			parsed.flags &^= syscall.MS_RDONLY
		case "hard":
			soft = false
		case "soft", "softerr":
			soft = true
		case "nolock":
			parsed.locks = false
		case "local_lock":
			parsed.locks = value == "none"
		case "noac":
			parsed.ttl = 0
		case "nfsvers", "vers":
			if !slices.Contains([]string{"4", "4.1", "4.2"}, value) {
				return parsed, fmt.Errorf("%s: only NFS 4.1 is supported", word)
			}
		case "sec":
			if value != "sys" {
				return parsed, fmt.Errorf("%s: only sec=sys is supported", word)
			}
		case "port", "timeo", "retrans", "actimeo":
			number, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return parsed, fmt.Errorf("%s: not a number from 0 to 65535", word)
			}
			numbers[key] = int(number)
		}
	}
	if port := numbers["port"]; port != 0 {
		parsed.port = port
	}
	if seconds, set := numbers["actimeo"]; set {
		parsed.ttl = time.Duration(seconds) * time.Second
	}
	if soft {
		parsed.soft = time.Duration(numbers["timeo"]*(numbers["retrans"]+1)) * 100 * time.Millisecond
	}
	return parsed, nil
}
