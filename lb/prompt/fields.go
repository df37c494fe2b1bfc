package prompt

// field is a relevant member of the request.
type field uint8

const (
	fieldOther field = iota // any other member
	fieldModel              // not part of the prompt, but a body that names two models is ambiguous
	fieldStream
	fieldN
	fieldLoraPath
	fieldCacheSalt
	fieldChatTemplate
	fieldTemplateOptions
	fieldReasoning
	fieldReasoningEffort
	fieldPromptLogprobs
	fieldLogprobs
	fieldEcho
	fieldAnthropicVersion
	fieldPreviousResponse // the server prepends an earlier response and its prompt
	// The limits; max_tokens is also the old name of max_completion_tokens.
	fieldMaxTokens
	fieldMaxOutputTokens
	fieldMaxCompletionTokens
	// From here to fieldContents the value is text for the model. The numbers are part of the hashed prompt: do not
	// reorder.
	fieldMessages
	fieldPrompt
	fieldInput
	fieldSystem
	fieldInstructions
	fieldSuffix
	fieldQuery
	fieldDocuments
	fieldText1
	fieldText2
	fieldTools // chat templates print it entirely, keys included
	fieldText
	fieldInputIDs
	fieldInputs
	fieldTextInput
	fieldContents
	fieldConversation // as fieldPreviousResponse
	// From here to fieldImages media beside a prompt, in the engines' own APIs.
	fieldImageData
	fieldAudioData
	fieldVideoData
	fieldMultiModalData
	fieldImages
	// Names that few bodies have. Their numbers are part of the keys, too.
	fieldExtraKey
	fieldLora
	fieldLoraID
	fieldLoraName
	fieldLoraTask
	fieldMediaOptions
	// Objects with options, and the limits in them.
	fieldParameters
	fieldSamplingParams
	fieldGenerationConfig
	fieldParameterNewTokens
	fieldParameterTokens
	fieldSamplingTokens
	fieldGenerationTokens
	fieldParameterAdapter // a name
	fieldCount
)

// isText reports whether the value of the field is text for the model.
func (f field) isText() bool { return f >= fieldMessages && f <= fieldContents }

// isMedia reports whether the value of the field is media beside a prompt.
func (f field) isMedia() bool { return f >= fieldImageData && f <= fieldImages }

// fieldNames are the names of the fields. It is a table, not a switch, for the size of the artifacts.
var fieldNames = [...]struct {
	name  string
	field field
}{
	{"model", fieldModel},
	{"stream", fieldStream},
	{"n", fieldN},
	{"lora_path", fieldLoraPath},
	{"cache_salt", fieldCacheSalt},
	{"anthropic_version", fieldAnthropicVersion},
	{"previous_response_id", fieldPreviousResponse},
	{"conversation", fieldConversation},
	{"max_tokens", fieldMaxTokens},
	{"max_output_tokens", fieldMaxOutputTokens},
	{"max_completion_tokens", fieldMaxCompletionTokens},
	{"messages", fieldMessages},
	{"prompt", fieldPrompt},
	{"input", fieldInput},
	{"system", fieldSystem},
	{"systemInstruction", fieldSystem},
	{"system_instruction", fieldSystem},
	{"instructions", fieldInstructions},
	{"suffix", fieldSuffix},
	{"query", fieldQuery},
	{"documents", fieldDocuments},
	{"text_1", fieldText1},
	{"text_2", fieldText2},
	{"tools", fieldTools},
	{"text", fieldText},
	{"input_ids", fieldInputIDs},
	{"inputs", fieldInputs},
	{"text_input", fieldTextInput},
	{"contents", fieldContents},
	{"parameters", fieldParameters},
	{"sampling_params", fieldSamplingParams},
	{"generationConfig", fieldGenerationConfig},
	{"generation_config", fieldGenerationConfig},
	{"chat_template", fieldChatTemplate},
	{"chat_template_kwargs", fieldTemplateOptions},
	{"reasoning", fieldReasoning},
	{"reasoning_effort", fieldReasoningEffort},
	{"prompt_logprobs", fieldPromptLogprobs},
	{"logprobs", fieldLogprobs},
	{"echo", fieldEcho},
	{"image_data", fieldImageData}, // SGLang
	{"audio_data", fieldAudioData},
	{"video_data", fieldVideoData},
	{"multi_modal_data", fieldMultiModalData}, // vLLM
	{"images", fieldImages},                   // Ollama
	{"extra_key", fieldExtraKey},              // SGLang
	{"lora", fieldLora},                       // llama.cpp
	{"lora_id", fieldLoraID},
	{"lora_name", fieldLoraName},
	{"lora_task_id", fieldLoraTask},            // TensorRT-LLM
	{"mm_processor_kwargs", fieldMediaOptions}, // vLLM
}

// fieldOf returns the field with the given name.
func fieldOf(name []byte) field {
	for i := range fieldNames {
		if f := &fieldNames[i]; len(f.name) == len(name) && f.name == string(name) {
			return f.field
		}
	}
	return fieldOther
}

// limitIn returns the limit on the output, or the adapter, with the given name in an object with options.
func limitIn(options field, name []byte) field {
	switch {
	case options == fieldParameters && string(name) == "max_new_tokens":
		return fieldParameterNewTokens
	case options == fieldParameters && string(name) == "max_tokens":
		return fieldParameterTokens
	case options == fieldParameters && string(name) == adapterID:
		return fieldParameterAdapter
	case options == fieldSamplingParams && string(name) == "max_new_tokens":
		return fieldSamplingTokens
	case options == fieldGenerationConfig && (string(name) == "maxOutputTokens" || string(name) == "max_output_tokens"):
		return fieldGenerationTokens
	}
	return fieldOther
}

// maxFieldName is the length of the longest name that fieldOf knows.
const maxFieldName = len("max_completion_tokens")

// maxEscapedName is the length in bytes of the longest name that fieldOf knows and one more character, all as escapes.
const maxEscapedName = (maxFieldName + 1) * len(`\u0000`)

// fieldSet is a set of fields.
type fieldSet uint64

func (f fieldSet) has(x field) bool { return f>>x&1 != 0 }

func setOf(fields ...field) (set fieldSet) {
	for _, f := range fields {
		set |= 1 << f
	}
	return set
}

// textFields are in the order in which chat templates print them, whatever the order in the body. What the server
// stores of a conversation is where the server inserts it. Media beside a prompt may be anywhere in it, and so are in
// front.
var textFields = [...]field{
	fieldTools, fieldSystem, fieldInstructions, fieldPreviousResponse, fieldConversation,
	fieldImageData, fieldAudioData, fieldVideoData, fieldMultiModalData, fieldImages,
	fieldMessages, fieldPrompt, fieldInput, fieldSuffix, fieldQuery, fieldDocuments, fieldText1, fieldText2, fieldText,
	fieldInputIDs, fieldInputs, fieldTextInput, fieldContents,
}

// isTalk reports whether chat templates print the value of a field as messages, or as the text of one.
func isTalk(f field) bool {
	switch f {
	case fieldSystem, fieldInstructions, fieldMessages, fieldInput, fieldContents:
		return true
	}
	return false
}

// nameFields decide for whom a prompt is cached, and with what chat template: options of the template may be printed at
// the beginning of a prompt. Of those behind the first commonNames only the ones that are there are part of the keys.
var nameFields = [...]field{
	fieldModel, fieldLoraPath, fieldCacheSalt, fieldChatTemplate, fieldTemplateOptions,
	fieldReasoning, fieldReasoningEffort,
	fieldExtraKey, fieldLora, fieldLoraID, fieldLoraName, fieldLoraTask, fieldMediaOptions, fieldParameters,
}

const (
	commonNames = 7
	// adapterID is the member of parameters that names an adapter: of TGI and LoRAX.
	adapterID = "adapter_id"
)
