package answer

// role is what a member of an event means by its place: what follows place is an object, or a list of objects, whose
// members have roles of their own.
type role uint8

const (
	roleNone      role = iota
	roleText           // output, unless it is empty
	roleGenerated      // likewise, and the answer ends with it
	roleFinish         // why the answer ends, null before
	roleDone           // true at the end
	roleType           // of the event
	roleObject         // what kind of object it is
	roleStatus
	roleError
	roleCode // of a flat error
	roleUsage
	place
	placeTop
	placeChoice    // OpenAI: of choices
	placeCandidate // Gemini
	placeContent   // Gemini: content of a candidate
	placeParts     // Gemini: parts of that
	placeMessage   // OpenAI: message and delta; Anthropic: message and delta; Ollama: message
	placeBlock     // Anthropic: content_block; OpenAI: item, part
	placeResponse  // OpenAI: response of an event
	placeLogprobs
	placeMeta   // SGLang
	placeFinish // SGLang: why it ends, as an object
)

// roles lists the roles of members by their place. Members that are not listed mean nothing.
var roles = [...]func(name string) role{
	placeTop: func(name string) role {
		switch name {
		case "choices":
			return placeChoice
		case "candidates":
			return placeCandidate
		case "delta", "message":
			return placeMessage
		case "content_block", "item", "part":
			return placeBlock
		case "response":
			return placeResponse
		case "content", "reasoning_content", "text", "text_output", "output", "output_ids", "token_ids", "tokens",
			"token", "embedding", "embeddings", "data", "results", "b64_json", "partial_image_b64", "audio",
			"transcript", "arguments":
			return roleText
		case "generated_text":
			return roleGenerated
		case "promptFeedback":
			return roleFinish
		case "done", "stop":
			return roleDone
		case "error":
			return roleError
		}
		return flatRole(name)
	},
	placeChoice: func(name string) role {
		switch name {
		case "delta", "message":
			return placeMessage
		case "text", "token_ids":
			return roleText
		case "logprobs":
			return placeLogprobs
		case "finish_reason":
			return roleFinish
		}
		return roleNone
	},
	placeCandidate: func(name string) role {
		switch name {
		case "content":
			return placeContent
		case "finishReason":
			return roleFinish
		}
		return roleNone
	},
	placeContent: func(name string) role {
		if name == "parts" {
			return placeParts
		}
		return roleNone
	},
	placeParts: func(name string) role {
		switch name {
		case "text", "functionCall", "inlineData", "executableCode", "codeExecutionResult":
			return roleText
		}
		return roleNone
	},
	placeMessage: func(name string) role {
		switch name {
		case "content", "reasoning_content", "reasoning", "reasoning_details", "thinking", "refusal", "text",
			"partial_json", "signature", "tool_calls", "function_call", "audio", "images", "citation":
			return roleText
		case "stop_reason":
			return roleFinish
		}
		return roleNone
	},
	placeBlock: func(name string) role {
		switch name {
		case "text", "thinking", "name", "data", "transcript", "arguments":
			return roleText
		}
		return roleNone
	},
	placeResponse: func(name string) role {
		switch name {
		case "output":
			return roleText
		case "error":
			return roleError
		case "status":
			return roleStatus
		case "usage":
			return roleUsage
		}
		return roleNone
	},
	placeLogprobs: func(name string) role {
		switch name {
		case "content", "refusal", "tokens", "token_logprobs":
			return roleText
		}
		return roleNone
	},
	placeMeta: func(name string) role {
		if name == "finish_reason" {
			return roleFinish
		}
		return roleNone
	},
	placeFinish: func(name string) role {
		switch name {
		case "type":
			return roleFinish
		case "status_code":
			return roleCode
		}
		return roleNone
	},
}

// flatRole returns the role of a member of the event itself that says what it is, not what it contains.
func flatRole(name string) role {
	switch name {
	case "type":
		return roleType
	case "object":
		return roleObject
	case "status":
		return roleStatus
	case "code", "error_type":
		return roleCode
	case "stop_reason":
		return roleFinish
	case "usage", "usageMetadata":
		return roleUsage
	case "meta_info":
		return placeMeta
	}
	return roleNone
}

// isOfAPI reports whether a member of the event itself shows which API it is of.
func isOfAPI(name string) bool {
	switch name {
	case "choices", "candidates", "done", "stop", "generated_text", "meta_info", "text_output", "token":
		return true
	}
	return false
}
