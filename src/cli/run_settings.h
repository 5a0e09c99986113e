#pragma once
// The settings of the training run that a model belongs to.

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::cli {

class Context;

// Returns the run.json of a model's path. The paths "runs/a", "runs/a/best" and
// "runs/a/best/step_000100/model" have the file of "runs/a". A folder that dllm export made has
// dllm_rows.json. Returns "" for a model that is not of a run.
std::string run_settings_file(const std::string& model);

// How a run read its rows.
struct RowSettings {
  nlohmann::ordered_json dataset; // options of kind dataset by key, without the files of the data
  std::string form;               // "texts", "conversations" or "instructions"; "": not known
  // Returns the chat template that the rows were written with: a name or a text. "": the template
  // of the tokenizer, or no template.
  std::string chat_template() const;
};
// Returns the settings of the run that trained the adapter of option --model.adapter, else the
// model of --model.
RowSettings row_settings(const Context& context);
// Returns the same for a model in place of that of --model.
RowSettings row_settings_of(const std::string& model, const Context& context);
// Writes the settings of the rows of model `from` into the folder `to` of the same model in another
// form. The new folder is then prompted and scored as its run is. Does nothing for a model without
// a run. Prints a note for a file, which has no place for them.
void keep_row_settings(const std::string& from, const std::string& to);

} // namespace dllm::cli
